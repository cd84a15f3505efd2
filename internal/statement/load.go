package statement

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"payonce/internal/gateway"
	"payonce/internal/payments"
	"payonce/internal/statement/internal/dbsqlc"
)

// createTables creates the temporary tables of a run.
//
//go:embed tables.sql
var createTables string

func columns() []string {
	return []string{"day", "line", "object", "psp_id", "reference", "subject", "amount_minor", "currency", "charge_id",
		"status", "created_at"}
}

// load copies the statement of a day into the run's table, line by line as the lines arrive. If there is no statement,
// it fails with gateway.ErrNoStatement, and the transaction can still be used.
func (j *judgement) load(ctx context.Context, day time.Time) error {
	// CopyFrom calls us for the next line, and Statement calls us with a line. iter.Pull connects the two.
	next, stop := iter.Pull(func(yield func(gateway.Record) bool) {
		left := j.config.MaxLines
		j.readErr = j.config.PSPs.Of(j.psp).Statement(ctx, j.account, day, func(r gateway.Record) error {
			if left--; left < 0 {
				return ErrTooLong
			}
			if !yield(r) {
				return errors.New("no longer wanted")
			}
			return nil
		})
	})
	defer stop()
	j.readErr = nil
	s := &source{next: next, whole: func() bool { return j.readErr == nil }, day: day, tell: j.progress(day)}
	_, err := j.tx.CopyFrom(ctx, pgx.Identifier{"statement_lines"}, columns(), s)
	stop()
	if s.ended && j.readErr != nil {
		return j.readErr
	}
	if err != nil {
		return fmt.Errorf("copy statement: %w", err)
	}
	j.loaded = s.line
	// Without ANALYZE, the planner assumes that the table is empty.
	if _, err := j.tx.Exec(ctx, "ANALYZE statement_lines"); err != nil {
		return fmt.Errorf("analyze lines: %w", err)
	}
	return j.findOurs(ctx, day)
}

// findOurs finds our movements for the lines of a day.
func (j *judgement) findOurs(ctx context.Context, day time.Time) error {
	if err := j.q.FetchOurs(ctx, dbsqlc.FetchOursParams{Day: dateOf(day), TenantID: j.tenant}); err != nil {
		return fmt.Errorf("find movements: %w", err)
	}
	err := j.q.FetchCharges(ctx, dbsqlc.FetchChargesParams{Day: dateOf(day), TenantID: j.tenant})
	if err != nil {
		return fmt.Errorf("find the payments that others have changed: %w", err)
	}
	if err := j.q.FetchStrangers(ctx, dateOf(day)); err != nil {
		return fmt.Errorf("find movements of other tenants: %w", err)
	}
	if _, err := j.tx.Exec(ctx, "ANALYZE statement_ours"); err != nil {
		return fmt.Errorf("analyze movements: %w", err)
	}
	if err := j.q.AdoptByPSPID(ctx, dateOf(day)); err != nil {
		return fmt.Errorf("take lines for movements by the PSP's id: %w", err)
	}
	return nil
}

// progress returns the function that reports how many lines were read.
func (j *judgement) progress(day time.Time) func(lines int64, done bool) {
	c := j.config
	return func(lines int64, done bool) {
		if c.Progress != nil && (done || lines%c.Every == 0) {
			c.Progress(Progress{Account: j.account, Day: day, Lines: lines, Done: done})
		}
	}
}

// source is a statement as the source of a COPY. One line is in memory at a time.
type source struct {
	next   func() (gateway.Record, bool)
	whole  func() bool
	tell   func(lines int64, done bool)
	day    time.Time
	line   int64
	record gateway.Record
	ended  bool
}

// Next implements pgx.CopyFromSource.
func (s *source) Next() bool {
	var more bool
	if s.record, more = s.next(); !more {
		s.ended = true
		if s.whole() {
			s.tell(s.line, true)
		}
		return false
	}
	s.line++
	s.tell(s.line, false)
	return true
}

// Values implements pgx.CopyFromSource.
func (s *source) Values() ([]any, error) {
	r := s.record
	id, ours := payments.SubjectOf(r.Object, r.Reference)
	return []any{
		s.day, s.line, string(r.Object), r.ID, r.Reference, pgtype.UUID{Bytes: id, Valid: ours}, r.AmountMinor,
		r.Currency, r.ChargeID, r.Status, r.Created,
	}, nil
}

// Err implements pgx.CopyFromSource. It is always nil, because an error would abort the whole transaction, even if only
// a neighbouring day has no statement. load checks how the reading has ended.
func (*source) Err() error { return nil }
