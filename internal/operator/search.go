package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/query"
)

// Found is something that a search has found. ID is that of the payment, refund or dead letter; a key has none. Key is
// empty for a dead letter about no key.
type Found struct {
	Type      FoundType        `json:"type"`
	ID        string           `json:"id,omitempty"`
	PaymentID string           `json:"paymentId,omitempty"` // of the payment that a refund gives back
	Tenant    string           `json:"tenant,omitempty"`
	Operation string           `json:"operation,omitempty"`
	Key       string           `json:"key,omitempty"`
	Kind      string           `json:"kind,omitempty"` // of a dead letter
	Status    string           `json:"status"`
	At        idempotency.Time `json:"at"` // when it was created, reserved or opened
}

// FoundType says what was found.
type FoundType string

// What a search can find.
const (
	FoundPayment    FoundType = "payment"
	FoundRefund     FoundType = "refund"
	FoundKey        FoundType = "key"
	FoundDeadLetter FoundType = "dead_letter"
)

// maxFound bounds each kind of what is found. A text names few things: only a key may be used by many tenants.
const maxFound = 50

// Search finds what has this id, this id at the PSP, or this key, for all tenants. The text must be the whole id.
func (s *Service) Search(q *query.Query) Page[Found] {
	sought := q.Text("q")
	if !q.Values.Has("q") {
		q.Refuse("q", "is required")
	}
	return func(ctx context.Context) (query.List[Found], error) { return s.Find(ctx, sought) }
}

// Find is Search for a text that needs no look at its form.
func (s *Service) Find(ctx context.Context, sought string) (query.List[Found], error) {
	q, found := dbsqlc.New(s.config.DB.Reader()), query.List[Found]{Rows: []Found{}}
	movements := dbsqlc.SearchMovementsParams{PspID: &sought, MaxRows: maxFound}
	if id, err := payment.ParseID(sought); err == nil {
		movements.PaymentID = new(uuid.UUID(id))
	}
	if id, err := payment.ParseRefundID(sought); err == nil {
		movements.RefundID = new(uuid.UUID(id))
	}
	moved, err := q.SearchMovements(ctx, movements)
	if err != nil {
		return found, fmt.Errorf("search payments: %w", err)
	}
	for _, r := range moved {
		f := Found{Type: FoundType(r.Object), ID: payment.ReferenceOf(gateway.Object(r.Object), r.ID),
			Tenant: r.TenantID, Operation: payment.CreateOperation, Key: r.IdempotencyKey, Status: r.Status,
			At: idempotency.Time(r.CreatedAt)}
		if f.Type == FoundRefund {
			f.PaymentID, f.Operation = payment.ID(r.PaymentID).String(), payment.RefundOperation
		}
		found.Rows = append(found.Rows, f)
	}
	keys, err := q.SearchKeys(ctx, dbsqlc.SearchKeysParams{Key: sought, MaxRows: maxFound})
	if err != nil {
		return found, fmt.Errorf("search keys: %w", err)
	}
	for _, r := range keys {
		found.Rows = append(found.Rows, Found{Type: FoundKey, Tenant: r.TenantID, Operation: r.Operation, Key: r.Key,
			Status: r.Status, At: idempotency.Time(r.ReservedAt)})
	}
	cases := dbsqlc.SearchDeadLettersParams{Key: &sought, MaxRows: maxFound}
	if id, err := uuid.Parse(sought); err == nil {
		cases.ID = &id
	}
	deadLetters, err := s.searchDeadLetters(ctx, cases)
	if err != nil {
		return found, err
	}
	found.Rows = append(found.Rows, deadLetters...)
	return found, nil
}

func (s *Service) searchDeadLetters(ctx context.Context, p dbsqlc.SearchDeadLettersParams) (found []Found, err error) {
	rows, err := dbsqlc.New(s.config.DB.Reader()).SearchDeadLetters(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("search dead letters: %w", err)
	}
	for _, r := range rows {
		found = append(found, Found{Type: FoundDeadLetter, ID: r.ID.String(), Tenant: r.TenantID,
			Operation: r.Operation, Key: r.Key, Kind: r.Kind, Status: r.Status, At: idempotency.Time(r.OpenedAt)})
	}
	return found, nil
}

// OpenAbout finds the open dead letters about a key, newest first.
func (s *Service) OpenAbout(ctx context.Context, ref idempotency.Ref) ([]Found, error) {
	found, err := s.searchDeadLetters(ctx,
		dbsqlc.SearchDeadLettersParams{Key: new(ref.Key.String()), MaxRows: maxFound})
	return slices.DeleteFunc(found, func(f Found) bool {
		return f.Tenant != ref.Tenant || f.Operation != string(ref.Operation)
	}), err
}

// Holder is the oldest open dead letter that holds a key without a row, or "".
func (s *Service) Holder(ctx context.Context, ref idempotency.Ref) (id string, err error) {
	about := deadletters.About{Tenant: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.String()}
	var open deadletters.OnKey
	err = s.config.DB.Pipeline(ctx, deadletters.OpenOnKey(deadletters.DeadLetter{About: &about}, &open))
	if open.Other != nil {
		id = open.Other.String()
	}
	return id, err
}
