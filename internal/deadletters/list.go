package deadletters

import (
	"context"
	"encoding/base64"
	"encoding/binary"
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

// Bounds of a page.
const (
	DefaultPage = 20
	MaxPage     = 100
)

// ErrNoDeadLetter says that there is no dead letter with that id.
var ErrNoDeadLetter = errors.New("no such dead letter")

// ErrCursorMalformed says that a string is not a cursor.
var ErrCursorMalformed = errors.New("cursor malformed")

// Status is ResolvedStatus if an operator has closed the dead letter, and otherwise OpenStatus.
func (l DeadLetter) Status() Status {
	if l.Resolution != nil {
		return ResolvedStatus
	}
	return OpenStatus
}

// Cursor is a position in a list. Dead letters are sorted by the time of their opening, and then by id.
type Cursor struct {
	opened time.Time
	id     uuid.UUID
}

// cursorBytes is the length of a cursor: a time in microseconds, which is PostgreSQL's resolution, and an id.
const cursorBytes = 8 + 16

// String returns the form that ParseCursor reads.
func (c Cursor) String() string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, cursorBytes), uint64(c.opened.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(raw, c.id[:]...))
}

// ParseCursor reads what String writes.
func ParseCursor(s string) (Cursor, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != cursorBytes {
		return Cursor{}, ErrCursorMalformed
	}
	c := Cursor{
		opened: time.UnixMicro(int64(binary.BigEndian.Uint64(raw))).UTC(), //nolint:gosec // the year is checked below
		id:     uuid.UUID(raw[8:]),
	}
	// PostgreSQL refuses times far outside these years. Package base64 reads several texts as the same bytes, for
	// example with line ends in between. Only the text that String writes is a cursor.
	if c.opened.Year() < 1970 || c.opened.Year() > 9999 || c.String() != s {
		return Cursor{}, ErrCursorMalformed
	}
	return c, nil
}

// Filter selects dead letters. An empty field selects all, but Status is required.
type Filter struct {
	Status Status
	Kind   Kind
	Tenant string
	Age    time.Duration // only dead letters that were opened so long ago, or longer
	// Only dead letters that were opened at OpenedAfter or later, and before OpenedBefore.
	OpenedAfter, OpenedBefore *time.Time

	Limit  int     // 1 to MaxPage
	Before *Cursor // only dead letters after this position; they are older
}

// Page is a part of a list, newest first. Next is the cursor of the next page, and nil on the last page.
type Page struct {
	DeadLetters []DeadLetter
	Next        *Cursor
}

// List reads a page of dead letters.
func List(ctx context.Context, db *postgres.DB, f Filter) (Page, error) {
	limit := max(1, min(f.Limit, MaxPage))
	p := dbsqlc.ListDeadLettersParams{Status: string(f.Status), Kind: postgres.Nullable(string(f.Kind)),
		Tenant: postgres.Nullable(f.Tenant), Age: f.Age, OpenedAfter: f.OpenedAfter, OpenedBefore: f.OpenedBefore,
		MaxRows: int32(limit + 1)}
	if f.Before != nil {
		p.BeforeOpened, p.BeforeID = &f.Before.opened, &f.Before.id
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
		page.Next = &Cursor{opened: last.Opened, id: last.ID}
	}
	return page, nil
}

// Get reads one dead letter. It fails with ErrNoDeadLetter.
func Get(ctx context.Context, db *postgres.DB, id uuid.UUID) (DeadLetter, error) {
	return get(ctx, db.Reader(), id)
}

// GetIn is Get in a call of a pipeline.
func GetIn(ctx context.Context, q postgres.Statement, id uuid.UUID) (DeadLetter, error) {
	return get(ctx, q, id)
}

func get(ctx context.Context, q dbsqlc.DBTX, id uuid.UUID) (DeadLetter, error) {
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
