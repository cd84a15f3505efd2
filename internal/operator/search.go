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
	Type      FoundType `json:"type"`
	ID        string    `json:"id,omitempty"`
	PaymentID string    `json:"paymentId,omitempty"` // of a key, or of the payment that a refund gives back
	RefundID  string    `json:"refundId,omitempty"`  // of a key
	Tenant    string    `json:"tenant,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Key       string    `json:"key,omitempty"`
	Kind      string    `json:"kind,omitempty"` // of a dead letter
	Status    string    `json:"status"`
	// The amount of the payment or refund. MovementStatus is what became of it, if a key is found.
	Amount         payment.AmountMinor `json:"amountCents,omitzero"`
	Currency       payment.Currency    `json:"currency,omitempty"`
	MovementStatus payment.Status      `json:"movementStatus,omitempty"`
	At             idempotency.Time    `json:"at"` // when it was created, reserved or opened
}

// Ref is the key of what was found.
func (f Found) Ref() idempotency.Ref { return idempotency.StoredRef(f.Tenant, f.Operation, f.Key) }

// FoundType says what was found.
type FoundType string

// What a search can find.
const (
	FoundPayment    FoundType = "payment"
	FoundRefund     FoundType = "refund"
	FoundKey        FoundType = "key"
	FoundDeadLetter FoundType = "dead_letter"
)

// maxFound bounds each kind of what is found. leastBeginning is the shortest text that is searched for as a beginning.
const (
	maxFound       = 50
	leastBeginning = 4
)

// Search finds what has this id, this id at the PSP, or this key, for all tenants, or what begins so; and payments with
// exactly this reference.
func (s *Service) Search(q *query.Query) Page[Found] {
	sought := q.Text("q")
	if !q.Values.Has("q") {
		q.Refuse("q", "is required")
	}
	return func(ctx context.Context) (query.List[Found], error) { return s.Find(ctx, sought) }
}

// Find is Search for a text that needs no look at its form. What is the whole text is found first: too many may only
// begin with it.
func (s *Service) Find(ctx context.Context, sought string) (query.List[Found], error) {
	list, end := query.List[Found]{Rows: []Found{}}, sought
	if len(sought) >= leastBeginning {
		end += "\U0010ffff" // No id or key goes on with a character behind this one.
	}
	for _, search := range []func(ctx context.Context, sought, end string) ([]Found, error){
		s.searchMovements, s.searchKeys, s.searchDeadLetters,
	} {
		found, err := search(ctx, sought, sought)
		if err == nil && end != sought && len(found) <= maxFound {
			var begin []Found
			begin, err = search(ctx, sought, end)
			found = append(found, slices.DeleteFunc(begin, func(f Found) bool { return slices.Contains(found, f) })...)
		}
		if err != nil {
			return list, err
		}
		list.More = list.More || len(found) > maxFound
		list.Rows = append(list.Rows, found[:min(len(found), maxFound)]...)
	}
	return list, nil
}

// between are the first and the last id whose text begins so, or nil. least and most are the texts of the first and the
// last id of all.
func between[ID ~[16]byte](sought, least, most string, parse func(string) (ID, error)) (first, last *uuid.UUID) {
	if len(sought) < leastBeginning || len(sought) > len(least) {
		return nil, nil
	}
	a, badA := parse(sought + least[len(sought):])
	b, badB := parse(sought + most[len(sought):])
	if badA != nil || badB != nil {
		return nil, nil
	}
	return new(uuid.UUID(a)), new(uuid.UUID(b))
}

func newestFirst(found []Found) []Found {
	slices.SortStableFunc(found, func(a, b Found) int { return b.At.Time().Compare(a.At.Time()) })
	return found
}

func (s *Service) searchMovements(ctx context.Context, sought, end string) (found []Found, err error) {
	p := dbsqlc.SearchMovementsParams{PspID: sought, PspIDEnd: end, Reference: sought, MaxRows: maxFound + 1}
	const least, most = "00000000000000000000000000", "7zzzzzzzzzzzzzzzzzzzzzzzzz"
	p.PaymentID, p.PaymentIDEnd = between(sought, "pay_"+least, "pay_"+most, payment.ParseID)
	p.RefundID, p.RefundIDEnd = between(sought, "re_"+least, "re_"+most, payment.ParseRefundID)
	rows, err := dbsqlc.New(s.config.DB.Reader()).SearchMovements(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("search payments: %w", err)
	}
	for _, r := range rows {
		f := Found{Type: FoundType(r.Object), ID: payment.ReferenceOf(gateway.Object(r.Object), r.ID),
			Tenant: r.TenantID, Operation: payment.CreateOperation, Key: r.IdempotencyKey,
			Status: string(payment.Status(r.Status).Shown()),
			Amount: payment.AmountMinor(r.AmountMinor), Currency: payment.Currency(r.Currency),
			At: idempotency.Time(r.CreatedAt)}
		if f.Type == FoundRefund {
			f.PaymentID, f.Operation = payment.ID(r.PaymentID).String(), payment.RefundOperation
		}
		found = append(found, f)
	}
	return newestFirst(found), nil
}

func (s *Service) searchKeys(ctx context.Context, sought, end string) (found []Found, err error) {
	rows, err := dbsqlc.New(s.config.DB.Reader()).SearchKeys(ctx,
		dbsqlc.SearchKeysParams{Key: sought, KeyEnd: end, MaxRows: maxFound + 1})
	if err != nil {
		return nil, fmt.Errorf("search keys: %w", err)
	}
	for _, r := range rows {
		f := Found{Type: FoundKey, Tenant: r.TenantID, Operation: r.Operation, Key: r.Key, Status: r.Status,
			Amount: payment.AmountMinor(r.AmountMinor), Currency: payment.Currency(r.Currency),
			MovementStatus: payment.Status(r.MovementStatus).Shown(), At: idempotency.Time(r.ReservedAt)}
		if f.MovementStatus != "" {
			f.PaymentID = payment.ID(r.PaymentID).String()
		}
		if f.MovementStatus != "" && r.PaymentID != r.MovementID {
			f.RefundID = payment.RefundID(r.MovementID).String()
		}
		found = append(found, f)
	}
	return newestFirst(found), nil
}

func (s *Service) searchDeadLetters(ctx context.Context, sought, end string) (found []Found, err error) {
	p := dbsqlc.SearchDeadLettersParams{Key: sought, KeyEnd: end, MaxRows: maxFound + 1}
	p.ID, p.IDEnd = between(sought, "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
		uuid.Parse)
	rows, err := dbsqlc.New(s.config.DB.Reader()).SearchDeadLetters(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("search dead letters: %w", err)
	}
	for _, r := range rows {
		found = append(found, Found{Type: FoundDeadLetter, ID: r.ID.String(), Tenant: r.TenantID,
			Operation: r.Operation, Key: r.Key, Kind: r.Kind, Status: r.Status, At: idempotency.Time(r.OpenedAt)})
	}
	return newestFirst(found), nil
}

// OpenAbout finds the open dead letters about a key, newest first.
func (s *Service) OpenAbout(ctx context.Context, ref idempotency.Ref) ([]Found, error) {
	found, err := s.searchDeadLetters(ctx, ref.Key.String(), ref.Key.String())
	return slices.DeleteFunc(found, func(f Found) bool { return f.Ref() != ref }), err
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
