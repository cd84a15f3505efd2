package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/query"
	"payonce/internal/tenants"
)

// KeyEntry is a key in a list.
type KeyEntry struct {
	Tenant         string             `json:"tenant"`
	Operation      string             `json:"operation"`
	Key            string             `json:"key"`
	Status         idempotency.Status `json:"status"`
	Attempt        int32              `json:"attempt"`
	Generation     int32              `json:"generation"`
	PaymentID      string             `json:"paymentId,omitempty"`
	RefundID       string             `json:"refundId,omitempty"`
	Reserved       idempotency.Time   `json:"reservedAt"`
	UnknownSince   *idempotency.Time  `json:"unknownSince,omitempty"`
	NextLookup     *idempotency.Time  `json:"nextLookupAt,omitempty"`
	Expires        idempotency.Time   `json:"expiresAt"`
	ResponseStatus int                `json:"responseStatus,omitzero"`
	Hold           string             `json:"deadLetterHold,omitempty"` // what open dead letters forbid
}

// Ref names the key.
func (k KeyEntry) Ref() idempotency.Ref { return idempotency.StoredRef(k.Tenant, k.Operation, k.Key) }

// Keys lists the keys of all tenants: those whose retention ends last come first, and the expired ones last.
func (s *Service) Keys(q *query.Query) Page[KeyEntry] {
	status := query.OneOf(q, "status", idempotency.InProgressStatus, idempotency.UnknownStatus,
		idempotency.CompletedStatus, idempotency.FailedRetryableStatus, idempotency.ExpiredStatus)
	tenant, limit := q.Text("tenant"), q.Limit()
	p := dbsqlc.ListKeysParams{Status: postgres.Nullable(string(status)), Tenant: postgres.Nullable(tenant),
		MaxRows: rowsFor(limit)}
	var id string
	p.LiveBefore, p.ExpiredBefore, id = query.CursorOf(q, parseCursor).bounds()
	p.BeforeTenant, id, _ = strings.Cut(id, "\n")
	p.BeforeOperation, p.BeforeKey, _ = strings.Cut(id, "\n")
	read := rowsRead(s, (*dbsqlc.Queries).ListKeys, p, limit, keyEntryOf, func(r dbsqlc.ListKeysRow) string {
		return cursor{r.Expired, r.At, r.TenantID + "\n" + r.Operation + "\n" + r.Key}.String()
	})
	return bounded(s, longestList, func(ctx context.Context) (query.List[KeyEntry], error) {
		if tenant != "" { // No index has the tenant and the time. Without a key to find, all of them would be read.
			known, err := tenants.IDs(ctx, s.config.DB)
			if err != nil {
				return query.List[KeyEntry]{}, err
			}
			if !slices.Contains(known, tenant) {
				return query.List[KeyEntry]{Rows: []KeyEntry{}}, nil
			}
		}
		return read(ctx)
	})
}

func keyEntryOf(r dbsqlc.ListKeysRow) KeyEntry {
	k := KeyEntry{
		Tenant: r.TenantID, Operation: r.Operation, Key: r.Key, Status: idempotency.Status(r.Status),
		Attempt: r.Attempt, Generation: r.Generation, Reserved: idempotency.Time(r.ReservedAt),
		UnknownSince: (*idempotency.Time)(r.UnknownSince), NextLookup: (*idempotency.Time)(r.ReconcileAfter),
		Expires: idempotency.Time(r.ExpiresAt),
	}
	if r.Operation == payment.RefundOperation {
		k.RefundID = payment.RefundID(r.Subject).String()
	} else {
		k.PaymentID = payment.ID(r.Subject).String()
	}
	if r.ResponseStatus != nil {
		k.ResponseStatus = int(*r.ResponseStatus)
	}
	if r.Hold != "none" {
		k.Hold = r.Hold
	}
	return k
}

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
