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

	"payonce/internal/statement/internal/dbsqlc"
)

// pageRows is how many breaks are in memory at a time.
const pageRows = 500

// Report says which days were judged. It holds no breaks: those are read where they are kept.
type Report struct {
	Day  time.Time
	Runs []Summary // also of earlier days that were judged anew
}

// Summary is one account's day.
type Summary struct {
	ID      uuid.UUID // of the run
	Account string
	Day     time.Time
	Lines   int64
	Breaks  int64
	New     int64 // of the breaks: not there before
	Gone    int64 // breaks of an earlier run that are no more
	// Pending movements of ours are in no statement so far, and may be in one that is not published yet.
	Pending int64
	// Partial: the day was not over.
	Partial bool
}

// Err is ErrBreaks if there are any.
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
	Kind     Kind
	Currency string
	Breaks   int64
	// AtStakeMinor is the sum of the differences for Amount, else that of what moved. As text: no integer is sure to hold it.
	AtStakeMinor string
	// By the time since each was first seen.
	ToOneDay, ToSevenDays, Older int64
	OldestMovement               time.Duration
}

// Format is how a report is written.
type Format string

// The formats of a report.
const (
	Table Format = "table"
	CSV   Format = "csv"
	JSON  Format = "json"
)

// ErrFormat says that there is no such format.
var ErrFormat = errors.New("not table, csv or json")

// writer writes a report piece by piece.
type writer interface {
	begin(report Report, totals []Total) error
	add(b Break) error
	end() error
}

// Write writes the report and the breaks of its days. The breaks are read and written page by page, however many there are.
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
			Kind: Kind(t.Kind), Currency: t.Currency, Breaks: t.Breaks, AtStakeMinor: t.AtStakeMinor, ToOneDay: t.ToOneDay,
			ToSevenDays: t.ToSevenDays, Older: t.Older, OldestMovement: time.Duration(t.OldestMovement) * time.Second,
		})
	}
	return totals, nil
}

// Breaks calls each with every break of a run's day, as they are now.
func (r *Reconciler) Breaks(ctx context.Context, s Summary, each func(Break) error) error {
	return pages(s, nil, each, func(p dbsqlc.OpenBreaksParams) ([]dbsqlc.OpenBreaksRow, error) {
		return dbsqlc.New(r.config.DB.Reader()).OpenBreaks(ctx, p)
	})
}

// pages reads the breaks of a day, or those that a run has raised, a page at a time.
func pages(
	s Summary, raisedBy *uuid.UUID, each func(Break) error, read func(dbsqlc.OpenBreaksParams) ([]dbsqlc.OpenBreaksRow, error),
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
