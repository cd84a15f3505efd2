package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
)

// KeyRows are the rows of a key and of its payment or refund, as JSON objects with a member for each column.
type KeyRows struct {
	Key      []byte // without the body of the stored response
	Response string // the body of the stored response; "" if there is none
	Movement []byte // null if the payment or refund does not exist
}

// ShowKey reads the rows of a key. It fails with idempotency.ErrNoKey.
func (s *Service) ShowKey(ctx context.Context, ref idempotency.Ref) (KeyRows, error) {
	row, err := dbsqlc.New(s.config.DB.Reader()).ShowKey(ctx, dbsqlc.ShowKeyParams{
		TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.String(),
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return KeyRows{}, idempotency.ErrNoKey
	case err != nil:
		return KeyRows{}, fmt.Errorf("show key: %w", err)
	}
	return KeyRows{Key: []byte(row.KeyRow), Response: row.ResponseBody, Movement: []byte(row.MovementRow)}, nil
}

// Stamps returns a text for each of the keys that exist. The text changes whenever the key's row or timeline changes.
// It takes one statement for all of them.
func (s *Service) Stamps(ctx context.Context, refs []idempotency.Ref) (map[idempotency.Ref]string, error) {
	p := dbsqlc.StampKeysParams{
		TenantIds: make([]string, len(refs)), Operations: make([]string, len(refs)), Keys: make([]string, len(refs)),
	}
	for i, ref := range refs {
		p.TenantIds[i], p.Operations[i], p.Keys[i] = ref.Tenant, string(ref.Operation), ref.Key.String()
	}
	rows, err := dbsqlc.New(s.config.DB.Reader()).StampKeys(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look for changes of keys: %w", err)
	}
	stamps := make(map[idempotency.Ref]string, len(rows))
	for _, r := range rows {
		stamps[idempotency.StoredRef(r.TenantID, r.Operation, r.Key)] = r.Stamp
	}
	return stamps, nil
}

// LatestKeys lists the keys of all tenants that were reserved last, newest first, each with what names it, its status,
// and the status of its response. Expired keys are not in the list.
func (s *Service) LatestKeys(ctx context.Context, limit int32) ([]KeyEntry, error) {
	rows, err := dbsqlc.New(s.config.DB.Reader()).LatestKeys(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("list latest keys: %w", err)
	}
	latest := make([]KeyEntry, len(rows))
	for i, r := range rows {
		latest[i] = KeyEntry{Tenant: r.TenantID, Operation: r.Operation, Key: r.Key,
			Status: idempotency.Status(r.Status), Reserved: idempotency.Time(r.ReservedAt)}
		if r.ResponseStatus != nil {
			latest[i].ResponseStatus = int(*r.ResponseStatus)
		}
	}
	return latest, nil
}
