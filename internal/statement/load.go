package statement

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/statement/internal/dbsqlc"
)

// createTables makes the temporary tables of a run, for its transaction alone: that is how far PgBouncer's transaction
// mode lets a session be one's own. db/statement_lines.sql tells sqlc the same.
const createTables = `CREATE TEMP TABLE statement_lines (
    day          date NOT NULL,
    line         bigint NOT NULL,
    object       text NOT NULL,
    psp_id       text COLLATE "C" NOT NULL,
    reference    text NOT NULL,
    subject      uuid,
    by_psp_id    boolean NOT NULL DEFAULT false,
    amount_minor bigint NOT NULL,
    currency     text NOT NULL,
    executed     boolean NOT NULL,
    created_at   timestamptz NOT NULL
) ON COMMIT DROP;

CREATE TEMP TABLE statement_absent (
    object       text NOT NULL,
    subject      uuid NOT NULL,
    psp_id       text COLLATE "C" NOT NULL,
    amount_minor bigint NOT NULL,
    currency     text NOT NULL,
    created_at   timestamptz NOT NULL,
    latest       timestamptz NOT NULL
) ON COMMIT DROP;

CREATE TEMP TABLE statement_ours (
    object       text NOT NULL,
    id           uuid NOT NULL,
    psp_id       text COLLATE "C",
    amount_minor bigint NOT NULL,
    currency     text NOT NULL,
    status       text NOT NULL,
    PRIMARY KEY (object, id)
) ON COMMIT DROP;

CREATE TEMP TABLE statement_strangers (
    object text NOT NULL,
    id     uuid NOT NULL
) ON COMMIT DROP;
`

func columns() []string {
	return []string{"day", "line", "object", "psp_id", "reference", "subject", "amount_minor", "currency", "executed", "created_at"}
}

// load copies the statement of a day into the run's table, line by line as it comes. It reports gateway.ErrNoStatement, and
// leaves the transaction usable, where there is none.
func (j *judgement) load(ctx context.Context, day time.Time) error {
	// COPY pulls, the statement pushes.
	next, stop := iter.Pull(func(yield func(gateway.Record) bool) {
		j.readErr = j.config.PSP.Statement(ctx, j.account, day, func(r gateway.Record) error {
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
	// Without it the planner takes a million lines for none.
	if _, err := j.tx.Exec(ctx, "ANALYZE statement_lines"); err != nil {
		return fmt.Errorf("analyze lines: %w", err)
	}
	return j.findOurs(ctx, day)
}

// findOurs finds the movements that the lines of a day are about.
func (j *judgement) findOurs(ctx context.Context, day time.Time) error {
	if err := j.q.FetchNamed(ctx, dbsqlc.FetchNamedParams{Day: dateOf(day), TenantID: j.tenant}); err != nil {
		return fmt.Errorf("find movements: %w", err)
	}
	if err := j.q.FetchByPSPID(ctx, dbsqlc.FetchByPSPIDParams{Day: dateOf(day), TenantID: j.tenant}); err != nil {
		return fmt.Errorf("find movements by the PSP's id: %w", err)
	}
	if err := j.q.FetchStrangers(ctx, dbsqlc.FetchStrangersParams{Day: dateOf(day), TenantID: j.tenant}); err != nil {
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

// progress returns what counts lines for the caller's eyes.
func (j *judgement) progress(day time.Time) func(lines int64, done bool) {
	c := j.config
	return func(lines int64, done bool) {
		if c.Progress != nil && (done || lines%c.Every == 0) {
			c.Progress(Progress{Account: j.account, Day: day, Lines: lines, Done: done})
		}
	}
}

// source is a statement as pgx copies it, one line in memory at a time.
type source struct {
	next   func() (gateway.Record, bool)
	whole  func() bool
	tell   func(lines int64, done bool)
	day    time.Time
	line   int64
	record gateway.Record
	ended  bool
}

// Next is pgx.CopyFromSource.
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

// Values is pgx.CopyFromSource.
func (s *source) Values() ([]any, error) {
	r := s.record
	return []any{
		s.day, s.line, string(r.Object), r.ID, r.Reference, subjectOf(r.Object, r.Reference), r.AmountMinor, r.Currency,
		r.Executed(), r.Created,
	}, nil
}

// Err is pgx.CopyFromSource. A copy that is told of an error takes the transaction along, also for a neighbour that has no
// statement: load looks at how the reading ended.
func (*source) Err() error { return nil }
