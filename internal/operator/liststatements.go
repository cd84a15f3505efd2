package operator

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/query"
	"payonce/internal/statement"
)

// RunEntry is a run that has compared a day's settlement file with our books.
type RunEntry struct {
	ID       uuid.UUID        `json:"runId"`
	Account  string           `json:"account"`
	Day      date             `json:"day"`
	Status   string           `json:"status"` // complete, or partial if the day was not over
	Lines    int64            `json:"lines"`
	Breaks   int64            `json:"breaks"`
	Pending  int64            `json:"pending"` // movements that may be in a later day's file
	Started  idempotency.Time `json:"startedAt"`
	Finished idempotency.Time `json:"finishedAt"`
}

// Statements lists the runs of the reconciliation of settlement files, the latest first.
func (s *Service) Statements(q *query.Query) Page[RunEntry] {
	account, limit, before := q.Text("account"), q.Limit(), query.CursorOf(q, parseRunCursor)
	p := dbsqlc.ListRunsParams{Account: postgres.Nullable(account), MaxRows: rowsFor(limit)}
	var id string
	p.BeforeStarted, _, id = before.bounds()
	p.BeforeID, _ = uuid.Parse(id) // Without a cursor, the time decides alone.
	return rowsRead(s, (*dbsqlc.Queries).ListRuns, p, limit, func(r dbsqlc.StatementRun) RunEntry {
		return RunEntry{ID: r.ID, Account: r.Account, Day: date{r.Day.Time}, Status: r.Status, Lines: r.Lines,
			Breaks: r.Breaks, Pending: r.Pending, Started: idempotency.Time(r.StartedAt),
			Finished: idempotency.Time(r.FinishedAt)}
	}, func(r dbsqlc.StatementRun) string { return cursor{false, r.StartedAt, r.ID.String()}.String() })
}

// Books reads both books of an account's day, as the last run of the day has found them. It is a list of one.
func (s *Service) Books(q *query.Query) Page[statement.Books] {
	account, text := q.Text("account"), q.Text("day")
	if account == "" {
		q.Refuse("account", "is required")
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		q.Refuse("day", "must be a day such as 2026-11-20")
	}
	return bounded(s, longestList, func(ctx context.Context) (query.List[statement.Books], error) {
		b, err := statement.ReadBooks(ctx, s.config.DB, account, day)
		return query.List[statement.Books]{Rows: []statement.Books{b}}, err
	})
}

// LinesOf reads the lines of settlement files about a payment.
func (s *Service) LinesOf(ctx context.Context, id payment.ID) (statement.BookedLines, error) {
	return statement.LinesOf(ctx, s.config.DB, id)
}

// BreakStatus says whether a break is there.
type BreakStatus string

// The statuses of a break.
const (
	BreakOpen BreakStatus = "open"
	BreakGone BreakStatus = "gone" // a later run of the same day has not found it
)

// BreakEntry is a difference between a settlement file and our books.
type BreakEntry struct {
	ID          int64             `json:"breakId"`
	Status      BreakStatus       `json:"status"`
	Account     string            `json:"account"`
	Day         date              `json:"day"`
	Kind        judge.BreakKind   `json:"kind"`
	Object      gateway.Object    `json:"object"`
	PSPID       string            `json:"pspId"`
	Reference   string            `json:"reference,omitempty"` // our id, as the file writes it, or of what it changes
	OtherTenant bool              `json:"otherTenant,omitzero"`
	Lines       int64             `json:"lines"`
	Theirs      *BreakSide        `json:"theirs,omitzero"`
	Ours        *BreakSide        `json:"ours,omitzero"`
	Moved       idempotency.Time  `json:"movedAt"`
	FirstSeen   idempotency.Time  `json:"firstSeenAt"`
	LastSeen    idempotency.Time  `json:"lastSeenAt"`
	Gone        *idempotency.Time `json:"goneAt,omitempty"`
}

// BreakSide is what the file, or our books, say about a movement.
type BreakSide struct {
	Amount   payment.AmountMinor `json:"amountCents"`
	Currency payment.Currency    `json:"currency"`
	Status   string              `json:"status,omitempty"` // on our side only
	PSPID    string              `json:"pspId,omitempty"`  // on our side only
}

// Decimal is the amount for people.
func (s BreakSide) Decimal() string { return s.Currency.Money(s.Amount) }

// Breaks lists the breaks that are there, or those that are gone, the latest first.
func (s *Service) Breaks(q *query.Query) Page[BreakEntry] {
	p := dbsqlc.ListBreaksParams{Open: query.OneOf(q, "status", BreakOpen, BreakGone) != BreakGone,
		Account: postgres.Nullable(q.Text("account")),
		Kind:    postgres.Nullable(string(query.OneOf(q, "kind", judge.BreakKinds()...))),
		Before:  1<<63 - 1}
	limit, before := q.Limit(), query.CursorOf(q, parseNumber)
	if p.MaxRows = rowsFor(limit); before != nil {
		p.Before = *before
	}
	return rowsRead(s, (*dbsqlc.Queries).ListBreaks, p, limit, breakEntryOf,
		func(r dbsqlc.ListBreaksRow) string { return strconv.FormatInt(r.ID, 10) })
}

// parseNumber reads a positive number as strconv writes it.
func parseNumber(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != s {
		return 0, errCursorMalformed
	}
	return n, nil
}

func breakEntryOf(r dbsqlc.ListBreaksRow) BreakEntry {
	b := BreakEntry{
		ID: r.ID, Status: BreakOpen, Account: r.Account, Day: date{r.Day.Time}, Kind: judge.BreakKind(r.Kind),
		Object: gateway.Object(r.Object), PSPID: r.PspID, Reference: r.Reference, OtherTenant: r.OtherTenant,
		Lines: r.Lines, Moved: idempotency.Time(r.MovedAt), FirstSeen: idempotency.Time(r.FirstSeen),
		LastSeen: idempotency.Time(r.LastSeen), Gone: (*idempotency.Time)(r.GoneAt),
	}
	if r.GoneAt != nil {
		b.Status = BreakGone
	}
	if r.TheirAmountMinor != nil {
		b.Theirs = &BreakSide{Amount: payment.AmountMinor(*r.TheirAmountMinor),
			Currency: payment.Currency(postgres.Text(r.TheirCurrency))}
	}
	if r.OurAmountMinor != nil {
		b.Ours = &BreakSide{Amount: payment.AmountMinor(*r.OurAmountMinor),
			Currency: payment.Currency(postgres.Text(r.OurCurrency)), Status: postgres.Text(r.OurStatus),
			PSPID: postgres.Text(r.OurPspID)}
	}
	if b.Reference == "" && r.Subject != nil {
		object := b.Object
		if b.Kind == judge.BreakMissingHere { // The line is about no movement of ours, and changes this payment.
			object = gateway.ChargeObject
		}
		b.Reference = payment.ReferenceOf(object, *r.Subject)
	}
	return b
}
