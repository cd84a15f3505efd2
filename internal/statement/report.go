package statement

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/payments"
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
	ID      uuid.UUID // the id of the run
	Account string
	Day     time.Time
	Lines   int64
	Breaks  int64
	New     int64 // how many of the breaks are new
	Gone    int64 // how many breaks of earlier runs are gone
	// Pending counts our movements that are in no statement so far, and are open, or may be in a statement that is not
	// published yet.
	Pending int64
	// Partial says that the day was not over.
	Partial bool
}

// Err is ErrBreaks if there are breaks.
func (r Report) Err() error {
	for _, s := range r.Runs {
		if s.Breaks > 0 {
			return ErrBreaks
		}
	}
	return nil
}

func (r Report) runIDs() []uuid.UUID {
	ids := make([]uuid.UUID, len(r.Runs))
	for i, s := range r.Runs {
		ids[i] = s.ID
	}
	return ids
}

// Total sums up the breaks of one kind and currency.
type Total struct {
	Kind     payments.BreakKind
	Currency string
	Breaks   int64
	// AtStakeMinor is the sum of the differences for BreakAmount, and otherwise the sum of what has moved. It is text,
	// because the sum may be too large for an integer.
	AtStakeMinor string
	// ToOneDay, ToSevenDays and Older count the breaks by the time since they were first seen.
	ToOneDay, ToSevenDays, Older int64
	OldestMovement               time.Duration
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
			err = r.Breaks(ctx, s, out.add)
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
	rows, err := dbsqlc.New(r.config.DB.Reader()).Totals(ctx, report.runIDs())
	if err != nil {
		return nil, fmt.Errorf("sum up breaks: %w", err)
	}
	var totals []Total
	for _, t := range rows {
		totals = append(totals, Total{
			Kind: payments.BreakKind(t.Kind), Currency: t.Currency, Breaks: t.Breaks, AtStakeMinor: t.AtStakeMinor,
			ToOneDay:    t.ToOneDay,
			ToSevenDays: t.ToSevenDays, Older: t.Older, OldestMovement: time.Duration(t.OldestMovement) * time.Second,
		})
	}
	return totals, nil
}

// Breaks calls each with every break that a run's day has now.
func (r *Reconciler) Breaks(ctx context.Context, s Summary, each func(Break) error) error {
	return pages(s, nil, each, func(p dbsqlc.OpenBreaksParams) ([]dbsqlc.OpenBreaksRow, error) {
		return dbsqlc.New(r.config.DB.Reader()).OpenBreaks(ctx, p)
	})
}

// pages reads the breaks of a day, or only those that a run has found first, one page at a time.
func pages(
	s Summary, raisedBy *uuid.UUID, each func(Break) error,
	read func(dbsqlc.OpenBreaksParams) ([]dbsqlc.OpenBreaksRow, error),
) error {
	p := dbsqlc.OpenBreaksParams{Account: s.Account, Day: dateOf(s.Day), RaisedBy: raisedBy, MaxRows: pageRows}
	for {
		page, err := read(p)
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
