package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/problem"
	"payonce/internal/query"
)

// keyView is a key as the API shows it.
type keyView struct {
	Key         string              `json:"key"`
	Operation   string              `json:"operation"`
	Status      idempotency.Status  `json:"status"`
	Attempt     int32               `json:"attempt"`
	Generation  int32               `json:"generation"`
	Fingerprint string              `json:"fingerprint"`
	CreatedAt   idempotency.Time    `json:"createdAt"`
	ReservedAt  idempotency.Time    `json:"reservedAt"`
	LockedUntil *idempotency.Time   `json:"lockedUntil,omitempty"`
	CompletedAt *idempotency.Time   `json:"completedAt,omitempty"`
	ExpiresAt   idempotency.Time    `json:"expiresAt"`
	Resource    string              `json:"resource"`
	Response    *storedResponse     `json:"response,omitzero"`
	Timeline    []idempotency.Event `json:"timeline"`
}

type storedResponse struct {
	Status      int    `json:"status"`
	ContentType string `json:"contentType"`
	Location    string `json:"location,omitempty"`
	Body        string `json:"body"`
}

// noSuchKey is the same text for a key that was never used, a key of another tenant, and a key that is not valid.
const noSuchKey = "There is no such key for this operation; operation=POST /payments is the default."

func (a *API) getKey(_ http.ResponseWriter, r *http.Request) (any, error) {
	operation, bad := operationOf(r.URL.RawQuery)
	if bad != nil {
		return nil, bad
	}
	key, err := keyInPath(r)
	if err != nil {
		return nil, &requestError{code: problem.NotFound, detail: noSuchKey}
	}
	ref := idempotency.Ref{Tenant: principalOf(r).Tenant, Operation: idempotency.Operation(operation), Key: key}
	record, err := a.config.Keys.FindToTell(r.Context(), ref)
	if errors.Is(err, idempotency.ErrNoKey) || err == nil && record.Status == idempotency.ExpiredStatus {
		decision, failed := a.config.Keys.Peek(r.Context(), idempotency.Reservation{Ref: ref})
		if _, held := decision.(idempotency.Held); held {
			return nil, heldKey()
		}
		err = errors.Join(err, failed)
	}
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return nil, &requestError{code: problem.NotFound, detail: noSuchKey}
	case err != nil:
		return nil, err
	case record.Status == idempotency.ExpiredStatus:
		return nil, &requestError{code: problem.IdempotencyKeyExpired,
			detail: "This key has expired. A request with it would be a new one."}
	}
	events, err := a.config.Keys.Events(r.Context(), ref)
	return viewOf(record, operation, a.base+locationOf(record, operation), record.Timeline(events)), err
}

func viewOf(k idempotency.KeyRow, operation, resource string, events []idempotency.Event) keyView {
	v := keyView{
		Key: k.Ref.Key.String(), Operation: operation, Status: k.Status, Attempt: k.Attempt, Generation: k.Generation,
		Fingerprint: k.Fingerprint.String(), CreatedAt: idempotency.Time(k.Created),
		ReservedAt: idempotency.Time(k.Reserved), LockedUntil: (*idempotency.Time)(k.LockedUntil),
		ExpiresAt: idempotency.Time(k.Expires), Resource: resource, Timeline: events,
	}
	if k.Response != nil {
		v.CompletedAt = (*idempotency.Time)(k.Finished)
		v.Response = &storedResponse{k.Response.Status, k.Response.ContentType, k.Response.Location,
			string(k.Response.Body)}
	}
	return v
}

func locationOf(k idempotency.KeyRow, operation string) string {
	if operation == payment.RefundOperation {
		return payment.Refund{ID: payment.RefundID(k.Subject)}.Location()
	}
	return payment.Payment{ID: payment.ID(k.Subject)}.Location()
}

func operationOf(rawQuery string) (string, *requestError) {
	q := query.Parse(rawQuery)
	op := query.OneOf(q, "operation", payment.CreateOperation, payment.RefundOperation)
	return cmp.Or(op, payment.CreateOperation), wrong(q.Bad())
}

// keyInPath unescapes the key. The router leaves the escapes in a path that has escaped slashes.
func keyInPath(r *http.Request) (idempotency.Key, error) {
	raw := chi.URLParam(r, "key")
	if r.URL.RawPath != "" {
		var err error
		if raw, err = url.PathUnescape(raw); err != nil {
			return idempotency.Key{}, err
		}
	}
	return idempotency.ParseKey(raw)
}
