package statement

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"payonce/internal/gateway"
	"payonce/internal/payments"
	"payonce/internal/statement/internal/dbsqlc"
)

// Kind says in what a statement and our books differ.
type Kind string

// The kinds of breaks.
const (
	// MissingHere: the PSP moved money for which there is no payment or refund of this tenant.
	MissingHere Kind = "missing_here"
	// MissingThere: a payment or refund of ours succeeded, and no statement that can have it does.
	MissingThere Kind = "missing_there"
	// Amount and Currency: the two differ in it.
	Amount   Kind = "amount"
	Currency Kind = "currency"
	// Status: the PSP moved money for what is declined, failed or still processing here. Or it lists a decline of what
	// succeeded here.
	Status Kind = "status"
	// Duplicate: a further movement for one payment or refund of ours, or an id that the statement has more than once.
	Duplicate Kind = "duplicate"
	// PSPID: ours succeeded under another id of the PSP, or that id is listed under another reference.
	PSPID Kind = "psp_id"
)

// Break is one difference between a statement and our books.
type Break struct {
	ID      int64
	Account string
	Day     time.Time // the day in whose run it was found, at 00:00 UTC
	Object  gateway.Object
	Kind    Kind
	PSPID   string // by the statement; of what is missing there, by us
	// Subject is our payment or refund, if there is one.
	Subject *uuid.UUID
	// Reference is our id as the statement writes it; of what is missing there, as we write it.
	Reference string
	// OtherTenant: the reference is that of a payment or refund of another tenant.
	OtherTenant bool
	// Lines is how many lines of the statement have this PSPID.
	Lines  int64
	Theirs *Side // nil for what is missing there
	Ours   *Side // nil for what is missing here
	Moved  time.Time
	// FirstSeen is when a run first found it. Age counts from there, MovementAge from Moved.
	FirstSeen        time.Time
	Age, MovementAge time.Duration
}

// Side is what one of the two says of a movement.
type Side struct {
	AmountMinor int64
	Currency    string
	Status      string // of ours
	PSPID       string // of ours; "" if it has none
}

// breakOf is the one mapper of a break's row.
func breakOf(row dbsqlc.OpenBreaksRow) Break {
	b := Break{
		ID: row.ID, Account: row.Account, Day: row.Day.Time, Object: gateway.Object(row.Object), Kind: Kind(row.Kind),
		PSPID: row.PspID, Subject: row.Subject, Reference: row.Reference, OtherTenant: row.OtherTenant, Lines: row.Lines,
		Moved: row.MovedAt.UTC(), FirstSeen: row.FirstSeen.UTC(),
		Age: time.Duration(row.Age) * time.Second, MovementAge: time.Duration(row.MovementAge) * time.Second,
	}
	if row.TheirAmountMinor != nil {
		b.Theirs = &Side{AmountMinor: *row.TheirAmountMinor, Currency: value(row.TheirCurrency)}
	}
	if row.OurAmountMinor != nil {
		b.Ours = &Side{
			AmountMinor: *row.OurAmountMinor, Currency: value(row.OurCurrency), Status: value(row.OurStatus),
			PSPID: value(row.OurPspID),
		}
	}
	if b.Kind == MissingThere && b.Subject != nil {
		b.Reference = referenceOf(b.Object, *b.Subject)
	}
	return b
}

// referenceOf writes our id as a statement does.
func referenceOf(o gateway.Object, id uuid.UUID) string {
	if o == gateway.RefundObject {
		return payments.RefundID(id).String()
	}
	return payments.PaymentID(id).String()
}

// subjectOf reads our id from a reference. What is none is nobody's.
func subjectOf(o gateway.Object, reference string) pgtype.UUID {
	if o == gateway.RefundObject {
		id, err := payments.ParseRefundID(reference)
		return pgtype.UUID{Bytes: id, Valid: err == nil}
	}
	id, err := payments.ParsePaymentID(reference)
	return pgtype.UUID{Bytes: id, Valid: err == nil}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
