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

// Status is where a letter stands.
type Status string

// The two statuses of a letter.
const (
	OpenStatus     Status = "open"
	ResolvedStatus Status = "resolved"
)

// Bounds of a page.
const (
	DefaultPage = 20
	MaxPage     = 100
)

// ErrNoLetter says that there is no letter of that id.
var ErrNoLetter = errors.New("no such dead letter")

// ErrCursorMalformed says that a string is no cursor of ours.
var ErrCursorMalformed = errors.New("cursor malformed")

// Status tells whether somebody has closed the case.
func (l Letter) Status() Status {
	if l.Resolution != nil {
		return ResolvedStatus
	}
	return OpenStatus
}

// Cursor is a place in a list. Letters are in the order of their opening, and of their ids where that is the same.
type Cursor struct {
	opened time.Time
	id     uuid.UUID
}

// cursorBytes are the microseconds of a time, PostgreSQL's own resolution, and an id.
const cursorBytes = 8 + 16

// String gives the form that ParseCursor reads.
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
	// PostgreSQL refuses times far beyond these, and no letter was opened then.
	// Of the spellings that package base64 reads, among them those with line ends inside, one is ours.
	if c.opened.Year() < 1970 || c.opened.Year() > 9999 || c.String() != s {
		return Cursor{}, ErrCursorMalformed
	}
	return c, nil
}

// Filter selects letters.
type Filter struct {
	Status Status
	Limit  int     // 1 to MaxPage
	Before *Cursor // only those that come after it in the list, which are older
}

// Page is a part of a list, newest first. Next is the cursor of the following part, nil on the last.
type Page struct {
	Letters []Letter
	Next    *Cursor
}

// List reads a page of letters.
func List(ctx context.Context, db *postgres.DB, f Filter) (Page, error) {
	limit := max(1, min(f.Limit, MaxPage))
	p := dbsqlc.ListLettersParams{Status: string(f.Status), MaxRows: int32(limit + 1)}
	if f.Before != nil {
		p.BeforeOpened, p.BeforeID = &f.Before.opened, &f.Before.id
	}
	rows, err := dbsqlc.New(db.Reader()).ListLetters(ctx, p)
	if err != nil {
		return Page{}, fmt.Errorf("list dead letters: %w", err)
	}
	var page Page
	for _, r := range rows {
		page.Letters = append(page.Letters, letterOf(dbsqlc.GetLetterRow(r)))
	}
	if len(page.Letters) > limit {
		page.Letters = page.Letters[:limit]
		last := page.Letters[limit-1]
		page.Next = &Cursor{opened: last.Opened, id: last.ID}
	}
	return page, nil
}

// Get reads one letter, or fails with ErrNoLetter.
func Get(ctx context.Context, db *postgres.DB, id uuid.UUID) (Letter, error) {
	return get(ctx, db.Reader(), id)
}

// GetIn is Get in a call of a pipeline.
func GetIn(ctx context.Context, q postgres.Statement, id uuid.UUID) (Letter, error) {
	return get(ctx, q, id)
}

func get(ctx context.Context, q dbsqlc.DBTX, id uuid.UUID) (Letter, error) {
	row, err := dbsqlc.New(q).GetLetter(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Letter{}, ErrNoLetter
	}
	if err != nil {
		return Letter{}, fmt.Errorf("read dead letter: %w", err)
	}
	return letterOf(row), nil
}

// letterOf is the one mapper of a letter's row.
func letterOf(r dbsqlc.GetLetterRow) Letter {
	l := Letter{
		ID: r.ID, Kind: Kind(r.Kind), Finding: r.Finding, Subject: r.Subject, Reason: r.Reason, Evidence: r.Evidence,
		Opened: r.OpenedAt, Age: seconds(r.AgeSeconds), Version: r.Version,
	}
	if r.TenantID != nil {
		l.About = &About{Tenant: *r.TenantID, Operation: *r.Operation, Key: *r.Key, Generation: *r.Generation}
	}
	if r.ResolvedAt != nil {
		l.Resolution = &Resolution{At: *r.ResolvedAt, Action: Action(*r.Action), Actor: *r.Actor, Reason: *r.ResolutionReason}
	}
	return l
}

// seconds is never negative: the database's clock may have been set back.
func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }
