package statement

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"payonce/internal/gateway"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/statement/internal/dbsqlc"
)

// Kind names the difference between a statement and our books.
type Kind string

// The kinds of breaks.
const (
	// MissingHere: the PSP has moved money for which this tenant has no payment or refund. Or others have changed a
	// payment of this tenant.
	MissingHere Kind = "missing_here"
	// MissingThere: a payment or refund of ours has succeeded, and none of the statements that could have it has it.
	MissingThere Kind = "missing_there"
	// Amount and Currency: the statement and our books differ in it.
	Amount   Kind = "amount"
	Currency Kind = "currency"
	// Status: the PSP has moved money for a movement that is declined, failed or still processing here. Or it lists a
	// movement as declined that has succeeded here.
	Status Kind = "status"
	// Duplicate: another movement for a payment or refund of ours, or an id that the statement has more than once.
	Duplicate Kind = "duplicate"
	// PSPID: our movement has succeeded under another id of the PSP, or the id is listed with another reference.
	PSPID Kind = "psp_id"
)

// Break is one difference between a statement and our books.
type Break struct {
	ID      int64
	Account string
	Day     time.Time // the day in whose run it was found, at 00:00 UTC
	Object  gateway.Object
	Kind    Kind
	PSPID   string // from the statement; for MissingThere from our books
	// Subject is our payment or refund, if there is one. For MissingHere it is the payment that the line changes.
	Subject *uuid.UUID
	// Reference is our id as the statement gives it. For MissingThere it is our id as we write it.
	Reference string
	// OtherTenant is true if the reference belongs to a payment or refund of another tenant.
	OtherTenant bool
	// Lines is how many lines of the statement have this PSPID.
	Lines  int64
	Theirs *Side // the statement's side; nil for MissingThere
	Ours   *Side // our side; nil for MissingHere
	Moved  time.Time
	// FirstSeen is when a run first found the break. Age counts from FirstSeen, MovementAge from Moved.
	FirstSeen        time.Time
	Age, MovementAge time.Duration
}

// changed is the id of our payment that others have changed by the line; "" if there is none.
func (b Break) changed() string {
	if b.Kind != MissingHere || b.Subject == nil {
		return ""
	}
	return payments.PaymentID(*b.Subject).String()
}

// Side is what the statement, or our books, say about a movement.
type Side struct {
	AmountMinor int64
	Currency    string
	Status      string
	PSPID       string // set on our side only; "" if the row has none
}

// breakOf is the only mapper of a break's row.
func breakOf(row dbsqlc.OpenBreaksRow) Break {
	b := Break{
		ID: row.ID, Account: row.Account, Day: row.Day.Time, Object: gateway.Object(row.Object), Kind: Kind(row.Kind),
		PSPID: row.PspID, Subject: row.Subject, Reference: row.Reference, OtherTenant: row.OtherTenant,
		Lines: row.Lines,
		Moved: row.MovedAt.UTC(), FirstSeen: row.FirstSeen.UTC(),
		Age: time.Duration(row.Age) * time.Second, MovementAge: time.Duration(row.MovementAge) * time.Second,
	}
	if row.TheirAmountMinor != nil {
		b.Theirs = &Side{AmountMinor: *row.TheirAmountMinor, Currency: postgres.Text(row.TheirCurrency),
			Status: postgres.Text(row.TheirStatus)}
	}
	if row.OurAmountMinor != nil {
		b.Ours = &Side{
			AmountMinor: *row.OurAmountMinor, Currency: postgres.Text(row.OurCurrency),
			Status: postgres.Text(row.OurStatus), PSPID: postgres.Text(row.OurPspID),
		}
	}
	if b.Kind == MissingThere && b.Subject != nil {
		b.Reference = referenceOf(b.Object, *b.Subject)
	}
	return b
}

// referenceOf is our id in the form of a statement.
func referenceOf(o gateway.Object, id uuid.UUID) string {
	if o == gateway.RefundObject {
		return payments.RefundID(id).String()
	}
	return payments.PaymentID(id).String()
}

// subjectOf reads our id from a reference. If the reference is not an id of ours, the result is not valid.
func subjectOf(o gateway.Object, reference string) pgtype.UUID {
	if o == gateway.RefundObject {
		id, err := payments.ParseRefundID(reference)
		return pgtype.UUID{Bytes: id, Valid: err == nil}
	}
	id, err := payments.ParsePaymentID(reference)
	return pgtype.UUID{Bytes: id, Valid: err == nil}
}
