package operator

import (
	"context"
	"slices"
	"strings"

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
