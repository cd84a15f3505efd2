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
	"payonce/internal/payment"
	"payonce/internal/statement/internal/dbsqlc"
)

// createTables creates the temporary tables of a run.
//
//go:embed tables.sql
var createTables string

func columns() []string {
	return []string{"day", "line", "object", "psp_id", "reference", "subject", "amount_minor", "currency", "charge_id",
		"status", "created_at", "line_id", "type", "fee_minor", "net_minor", "balance_currency"}
}

// load copies the statement of a day into the run's table, line by line as the lines arrive. If there is no statement,
// it fails with gateway.ErrNoStatement, and the transaction can still be used.
func (j *judgement) load(ctx context.Context, day time.Time) error {
	// CopyFrom calls us for the next line, and Statement calls us with a line. iter.Pull connects the two.
	next, stop := iter.Pull(func(yield func(gateway.Line) bool) {
		j.readErr = j.published().Statement(ctx, j.Account, day, func(l gateway.Line) error {
			if j.loaded == j.config.MaxLines {
				return ErrTooLong
			}
			if !yield(l) {
				return errors.New("no longer wanted")
			}
			return nil
		})
	})
	defer stop()
	ended := false
	j.loaded = 0
	progress := func() {
		if c := j.config; c.Progress != nil && (ended || j.loaded%c.Every == 0) {
			c.Progress(Progress{Account: j.Account, Day: day, Lines: j.loaded, Done: ended})
		}
	}
	_, err := j.tx.CopyFrom(ctx, pgx.Identifier{"statement_lines"}, columns(), pgx.CopyFromFunc(func() ([]any, error) {
		l, more := next()
		if !more {
			if ended = true; j.readErr == nil {
				progress()
			}
			// Not readErr: it would abort the whole transaction, even if only a neighbouring day has no statement.
			return nil, nil
		}
		j.loaded++
		progress()
		id, ours := payment.SubjectOf(l.Object, l.Reference)
		return []any{
			day, j.loaded, string(l.Object), l.ID, l.Reference, pgtype.UUID{Bytes: id, Valid: ours}, l.AmountMinor,
			l.Currency, l.ChargeID, l.Status, l.Created, l.LineID, l.Type, l.FeeMinor, l.NetMinor, l.BalanceCurrency,
		}, nil
	}))
	stop()
	if ended && j.readErr != nil {
		return fmt.Errorf("read statement: %w", j.readErr)
	}
	if err != nil {
		return fmt.Errorf("copy statement: %w", err)
	}
	// Without ANALYZE, the planner assumes that the table is empty.
	if _, err := j.tx.Exec(ctx, "ANALYZE statement_lines"); err != nil {
		return fmt.Errorf("analyze lines: %w", err)
	}
	return j.findOurs(ctx, day)
}

// findOurs finds our movements for the lines of a day.
func (j *judgement) findOurs(ctx context.Context, day time.Time) error {
	err := j.q.FetchOurs(ctx, dbsqlc.FetchOursParams{Day: dateOf(day), TenantID: j.Tenant,
		OwnPrefix: payment.OperatorPSPID})
	if err != nil {
		return fmt.Errorf("find movements: %w", err)
	}
	err = j.q.FetchCharges(ctx, dbsqlc.FetchChargesParams{Day: dateOf(day), TenantID: j.Tenant})
	if err != nil {
		return fmt.Errorf("find the payments that others have changed: %w", err)
	}
	err = j.q.FetchElsewhere(ctx, dbsqlc.FetchElsewhereParams{Day: dateOf(day), TenantID: j.Tenant})
	if err != nil {
		return fmt.Errorf("find what others have done: %w", err)
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
