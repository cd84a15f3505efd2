package statement

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/judge"
	"payonce/internal/statement/internal/dbsqlc"
)

// pageRows is how many breaks are read at a time.
const pageRows = 500

// Report says which days were judged. The breaks are not in the Report but in the database.
type Report struct {
	Day  time.Time
	Runs []Summary // one for each account
}

// Summary is the result for one account's day.
type Summary struct {
	ID      uuid.UUID `json:"id"` // the id of the run
	Account string    `json:"account"`
	Day     time.Time `json:"-"` // jsonRun has it
	Lines   int64     `json:"lines"`
	Breaks  int64     `json:"breaks"`
	New     int64     `json:"new"`  // how many of the breaks are new
	Gone    int64     `json:"gone"` // how many breaks of earlier runs are gone
	// Pending counts our movements that are in no statement so far, and are open, or may be in a statement that is not
	// published yet.
	Pending int64 `json:"pending"`
	// Partial says that the day was not over.
	Partial bool `json:"partial"`
}

// Err is ErrBreaks if there are breaks.
func (r Report) Err() error {
	if slices.ContainsFunc(r.Runs, func(s Summary) bool { return s.Breaks > 0 }) {
		return ErrBreaks
	}
	return nil
}

// Total sums up the breaks of one kind and currency.
type Total struct {
	Kind     judge.BreakKind `json:"kind"`
	Currency string          `json:"currency"`
	Breaks   int64           `json:"breaks"`
	// AtStakeMinor is the sum of the differences for BreakAmount, and otherwise the sum of what has moved. It is text,
	// because the sum may be too large for an integer.
	AtStakeMinor          string `json:"atStakeMinor"`
	Ages                  Ages   `json:"ages"`
	OldestMovementSeconds int64  `json:"oldestMovementAgeSeconds"`
}

// Ages counts breaks by the time since they were first seen.
type Ages struct {
	ToOneDay    int64 `json:"toOneDay"`
	ToSevenDays int64 `json:"toSevenDays"`
	Older       int64 `json:"older"`
}

// Format is the format of a report.
type Format string

// The formats of a report.
const (
	Table Format = "table"
	CSV   Format = "csv"
	JSON  Format = "json"
)

// ErrFormat says that there is no such format.
var ErrFormat = errors.New("not table, csv or json")

// writer writes a report part by part.
type writer interface {
	begin(report Report, totals []Total) error
	add(b Break) error
	endBreaks() error
	books(s Summary, b Books) error
	end() error
}

// Write writes the report and the breaks of its days. It reads and writes one page of breaks at a time.
func (r *Reconciler) Write(ctx context.Context, w io.Writer, report Report, f Format) error {
	totals, err := r.totals(ctx, report)
	if err != nil {
		return err
	}
	var out writer
	switch f {
	case Table:
		out = &tableWriter{out: bufio.NewWriter(w)}
	case CSV:
		out = &csvWriter{csv.NewWriter(w)}
	case JSON:
		out = &jsonWriter{jsontext.NewEncoder(w, jsontext.Multiline(true))}
	default:
		return fmt.Errorf("format %q: %w", f, ErrFormat)
	}
	err = out.begin(report, totals)
	for _, s := range report.Runs {
		if err == nil {
			err = pages(ctx, dbsqlc.New(r.config.DB.Reader()), s, nil, out.add)
		}
	}
	if err == nil {
		err = out.endBreaks()
	}
	for _, s := range report.Runs {
		if err == nil {
			var b Books
			if b, err = ReadBooks(ctx, r.config.DB, s.Account, s.Day); err == nil {
				err = out.books(s, b)
			}
		}
	}
	if err == nil {
		err = out.end()
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r *Reconciler) totals(ctx context.Context, report Report) ([]Total, error) {
	ids := make([]uuid.UUID, len(report.Runs))
	for i, s := range report.Runs {
		ids[i] = s.ID
	}
	rows, err := dbsqlc.New(r.config.DB.Reader()).Totals(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("sum up breaks: %w", err)
	}
	var totals []Total
	for _, t := range rows {
		totals = append(totals, Total{
			Kind: judge.BreakKind(t.Kind), Currency: t.Currency, Breaks: t.Breaks, AtStakeMinor: t.AtStakeMinor,
			Ages: Ages{t.ToOneDay, t.ToSevenDays, t.Older}, OldestMovementSeconds: t.OldestMovement,
		})
	}
	return totals, nil
}

// pages reads the breaks that a run's day has now, or only those that a run has found first, one page at a time.
func pages(ctx context.Context, q *dbsqlc.Queries, s Summary, raisedBy *uuid.UUID, each func(Break) error) error {
	p := dbsqlc.OpenBreaksParams{Account: s.Account, Day: dateOf(s.Day), RaisedBy: raisedBy, MaxRows: pageRows}
	for {
		page, err := q.OpenBreaks(ctx, p)
		if err != nil {
			return fmt.Errorf("read breaks: %w", err)
		}
		for _, row := range page {
			if err := each(breakOf(row)); err != nil {
				return err
			}
			p.After = row.ID
		}
		if len(page) < pageRows {
			return nil
		}
	}
}
