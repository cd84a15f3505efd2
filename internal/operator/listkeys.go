package operator

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/query"
)

// KeyFilter selects keys. An empty field selects all.
type KeyFilter struct {
	Status idempotency.Status
	Tenant string
	Limit  int
	before *cursor
}

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
	Reserved       at                 `json:"reservedAt"`
	UnknownSince   *at                `json:"unknownSince,omitempty"`
	NextLookup     *at                `json:"nextLookupAt,omitempty"`
	Expires        at                 `json:"expiresAt"`
	ResponseStatus int                `json:"responseStatus,omitzero"`
	Hold           string             `json:"deadLetterHold,omitempty"` // what open dead letters forbid
}

// Ref names the key.
func (k KeyEntry) Ref() idempotency.Ref { return idempotency.StoredRef(k.Tenant, k.Operation, k.Key) }

// Keys lists the keys of all tenants: those whose retention ends last come first, and the expired ones last.
func (d *Service) Keys() Listing[KeyFilter, KeyEntry] {
	return Listing[KeyFilter, KeyEntry]{Parameters: []string{"status", "tenant", "limit", "cursor"},
		Filter: keyFilterOf, Read: bounded(longestList, d.places, d.listKeys)}
}

func keyFilterOf(values url.Values) (KeyFilter, []problem.Detail) {
	q := &query.Query{Values: values}
	f := KeyFilter{
		Status: query.OneOf(q, "status", idempotency.InProgressStatus, idempotency.UnknownStatus,
			idempotency.CompletedStatus, idempotency.FailedRetryableStatus, idempotency.ExpiredStatus),
		Tenant: q.Text("tenant"), Limit: q.Limit(), before: query.CursorOf(q, parseCursor),
	}
	return f, q.Bad
}

func (d *Service) listKeys(ctx context.Context, f KeyFilter) (query.List[KeyEntry], error) {
	if f.Tenant != "" { // No index has the tenant and the time. Without a key to find, all of them would be read.
		known, err := dbsqlc.New(d.db.Reader()).ListTenantIDs(ctx)
		if err != nil {
			return query.List[KeyEntry]{}, fmt.Errorf("list tenants: %w", err)
		}
		if !slices.Contains(known, f.Tenant) {
			return query.List[KeyEntry]{Rows: []KeyEntry{}}, nil
		}
	}
	live, expired, id := f.before.bounds()
	p := dbsqlc.ListKeysParams{Status: postgres.Nullable(string(f.Status)), Tenant: postgres.Nullable(f.Tenant),
		LiveBefore:    live,
		ExpiredBefore: expired, MaxRows: rowsFor(f.Limit)}
	p.BeforeTenant, id, _ = strings.Cut(id, "\n")
	p.BeforeOperation, p.BeforeKey, _ = strings.Cut(id, "\n")
	rows, err := dbsqlc.New(d.db.Reader()).ListKeys(ctx, p)
	if err != nil {
		return query.List[KeyEntry]{}, fmt.Errorf("list keys: %w", err)
	}
	return listOf(rows, f.Limit, keyEntryOf, func(r dbsqlc.ListKeysRow) string {
		return cursor{r.Expired, r.At, r.TenantID + "\n" + r.Operation + "\n" + r.Key}.String()
	}), nil
}

func keyEntryOf(r dbsqlc.ListKeysRow) KeyEntry {
	k := KeyEntry{
		Tenant: r.TenantID, Operation: r.Operation, Key: r.Key, Status: idempotency.Status(r.Status),
		Attempt: r.Attempt, Generation: r.Generation, Reserved: at{r.ReservedAt}, Expires: at{r.ExpiresAt},
		UnknownSince: atOrNil(r.UnknownSince), NextLookup: atOrNil(r.ReconcileAfter),
	}
	if r.Operation == payments.RefundOperation {
		k.RefundID = payments.RefundID(r.Subject).String()
	} else {
		k.PaymentID = payments.PaymentID(r.Subject).String()
	}
	if r.ResponseStatus != nil {
		k.ResponseStatus = int(*r.ResponseStatus)
	}
	if r.Hold != "none" {
		k.Hold = r.Hold
	}
	return k
}
