package deadletters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Status is the status of a dead letter.
type Status string

// The two statuses of a dead letter.
const (
	OpenStatus     Status = "open"
	ResolvedStatus Status = "resolved"
)

// MaxPage bounds a page.
const MaxPage = 100

// ErrNoDeadLetter says that there is no dead letter with that id.
var ErrNoDeadLetter = errors.New("no such dead letter")

// Status is ResolvedStatus if an operator has closed the dead letter, and otherwise OpenStatus.
func (l DeadLetter) Status() Status {
	if l.Resolution != nil {
		return ResolvedStatus
	}
	return OpenStatus
}

// Position is a place in a list. Dead letters are sorted by the time of their opening, and then by id.
type Position struct {
	Opened time.Time
	ID     uuid.UUID
}

// Filter selects dead letters. An empty field selects all, but Status is required.
type Filter struct {
	Status Status
	Kind   Kind
	Tenant string
	Age    time.Duration // only dead letters that were opened so long ago, or longer
	// Only dead letters that were opened at OpenedAfter or later, and before OpenedBefore.
	OpenedAfter, OpenedBefore *time.Time

	Limit  int       // 1 to MaxPage
	Before *Position // only dead letters after this one; they are older
}

// Page is a part of a list, newest first. Next is where the next page begins, and nil on the last page.
type Page struct {
	DeadLetters []DeadLetter
	Next        *Position
}

// List reads a page of dead letters.
func List(ctx context.Context, db *postgres.DB, f Filter) (Page, error) {
	limit := max(1, min(f.Limit, MaxPage))
	p := dbsqlc.ListDeadLettersParams{Status: string(f.Status), Kind: postgres.Nullable(string(f.Kind)),
		Tenant: postgres.Nullable(f.Tenant), Age: f.Age, OpenedAfter: f.OpenedAfter, OpenedBefore: f.OpenedBefore,
		MaxRows: int32(limit + 1)}
	if f.Before != nil {
		p.BeforeOpened, p.BeforeID = &f.Before.Opened, &f.Before.ID
	}
	rows, err := dbsqlc.New(db.Reader()).ListDeadLetters(ctx, p)
	if err != nil {
		return Page{}, fmt.Errorf("list dead letters: %w", err)
	}
	var page Page
	for _, r := range rows {
		page.DeadLetters = append(page.DeadLetters, deadLetterOf(dbsqlc.GetDeadLetterRow(r)))
	}
	if len(page.DeadLetters) > limit {
		page.DeadLetters = page.DeadLetters[:limit]
		last := page.DeadLetters[limit-1]
		page.Next = &Position{Opened: last.Opened, ID: last.ID}
	}
	return page, nil
}

// ParseID reads an id in the form in which it is written. Package uuid would accept several forms. It fails with
// ErrNoDeadLetter: such a text names none.
func ParseID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil || id.String() != s {
		return uuid.UUID{}, ErrNoDeadLetter
	}
	return id, nil
}

// Get reads one dead letter. It fails with ErrNoDeadLetter.
func Get(ctx context.Context, q dbsqlc.DBTX, id uuid.UUID) (DeadLetter, error) {
	row, err := dbsqlc.New(q).GetDeadLetter(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return DeadLetter{}, ErrNoDeadLetter
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("read dead letter: %w", err)
	}
	return deadLetterOf(row), nil
}

// deadLetterOf is the only mapper of a dead letter's row.
func deadLetterOf(r dbsqlc.GetDeadLetterRow) DeadLetter {
	l := DeadLetter{
		ID: r.ID, Kind: Kind(r.Kind), Finding: r.Finding, Subject: r.Subject, Reason: r.Reason, Evidence: r.Evidence,
		Opened: r.OpenedAt, Age: seconds(r.AgeSeconds), Version: r.Version,
	}
	if r.TenantID != nil {
		l.About = &About{Tenant: *r.TenantID, Operation: *r.Operation, Key: *r.Key, Generation: *r.Generation}
	}
	if r.ResolvedAt != nil {
		l.Resolution = &Resolution{At: *r.ResolvedAt, Action: Action(*r.Action), Actor: *r.Actor,
			Reason: *r.ResolutionReason}
	}
	return l
}

// seconds is never negative. A difference of two times may be, if the database's clock was set back.
func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }

// Summary counts the open dead letters.
type Summary struct {
	Open   map[Kind]int64 `json:"open"`          // only kinds with an open dead letter
	Oldest time.Duration  `json:"oldestSeconds"` // the age of the oldest open dead letter; zero if there is none
}

// Summarize counts the open dead letters.
func Summarize(ctx context.Context, db *postgres.DB) (Summary, error) {
	rows, err := dbsqlc.New(db.Reader()).CountOpen(ctx)
	if err != nil {
		return Summary{}, fmt.Errorf("count open dead letters: %w", err)
	}
	s := Summary{Open: map[Kind]int64{}}
	for _, r := range rows {
		s.Open[Kind(r.Kind)] = r.DeadLetters
		s.Oldest = max(s.Oldest, seconds(r.OldestSeconds))
	}
	return s, nil
}

// Kinds are the kinds of dead letters.
func Kinds() []Kind {
	return []Kind{PSPContradicts, ContradictsCompleted, DuplicateMovement, LookupsExhausted, PSPMemoryOver,
		UnknownMovement, UnreadableRecord, ScanFailing, OtherAccount, LateAfterExpiry, RefundExceeds, MovedOutside,
		WebhookUnmatched, MissingAtPSP, JobDiscarded}
}
