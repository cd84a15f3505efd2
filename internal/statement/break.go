package statement

import (
	"time"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/statement/internal/dbsqlc"
)

// Break is one difference between a statement and our books, as it is stored.
type Break struct {
	judge.Break

	ID int64 `json:"-"`
	// Lines is how many lines of the statement have this PSPID.
	Lines int64 `json:"lines"`
	// FirstSeen is when a run first found the break. The age counts from it, and the movement's age from Moved.
	FirstSeen          time.Time `json:"firstSeen"`
	AgeSeconds         int64     `json:"ageSeconds"`
	MovementAgeSeconds int64     `json:"movementAgeSeconds"`
	// Changed is the id of our payment that others have changed by the line; "" if there is none.
	Changed string `json:"changedPaymentId,omitzero"`
}

// breakOf is the only mapper of a break's row.
func breakOf(row dbsqlc.OpenBreaksRow) Break {
	b := Break{
		Break: judge.Break{
			Account: row.Account, Day: row.Day.Time, Object: gateway.Object(row.Object),
			Kind: judge.BreakKind(row.Kind), PSPID: row.PspID, Subject: row.Subject, ChargeID: row.ChargeID,
			Reference: row.Reference, OtherTenant: row.OtherTenant, Moved: row.MovedAt.UTC(),
		},
		ID: row.ID, Lines: row.Lines, FirstSeen: row.FirstSeen.UTC(),
		AgeSeconds: row.Age, MovementAgeSeconds: row.MovementAge,
	}
	if row.TheirAmountMinor != nil {
		b.Theirs = &judge.Side{AmountMinor: *row.TheirAmountMinor, Currency: postgres.Text(row.TheirCurrency),
			Status: postgres.Text(row.TheirStatus)}
	}
	if row.OurAmountMinor != nil {
		b.Ours = &judge.Side{
			AmountMinor: *row.OurAmountMinor, Currency: postgres.Text(row.OurCurrency),
			Status: postgres.Text(row.OurStatus), PSPID: postgres.Text(row.OurPspID),
		}
	}
	switch {
	case b.Subject == nil:
	case b.Kind == judge.BreakMissingThere:
		b.Reference = payment.ReferenceOf(b.Object, *b.Subject)
	case b.Kind == judge.BreakMissingHere:
		b.Changed = payment.ID(*b.Subject).String()
	}
	return b
}
