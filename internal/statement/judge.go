package statement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/statement/internal/dbsqlc"
)

// judgement is the run for one account's day, in its transaction.
type judgement struct {
	dbsqlc.FindAccountsRow

	config  Config
	tx      pgx.Tx
	q       *dbsqlc.Queries
	day     time.Time
	run     uuid.UUID
	started time.Time // by the database's clock, before the statement is requested

	readErr error // the error of the last statement that was read
	loaded  int64 // how many lines it had
}

// reconcile judges one account's day. If it fails, nothing is written.
func (r *Reconciler) reconcile(ctx context.Context, t dbsqlc.FindAccountsRow, day time.Time) (s Summary, err error) {
	id, err := r.config.NewID()
	if err != nil {
		return Summary{}, fmt.Errorf("make run id: %w", err)
	}
	err = r.config.DB.TransactFor(ctx, r.config.Limit, func(ctx context.Context, tx pgx.Tx) (err error) {
		j := &judgement{FindAccountsRow: t, config: r.config, tx: tx, q: dbsqlc.New(tx), day: day, run: id}
		s, err = j.judge(ctx)
		return err
	})
	return s, err
}

// published are the statements of the account's PSP.
func (j *judgement) published() gateway.Statements {
	return gateway.StatementsOf(j.config.PSPs.Of(j.Psp))
}

func (j *judgement) judge(ctx context.Context) (Summary, error) {
	if err := j.begin(ctx); err != nil {
		return Summary{}, err
	}
	if err := j.load(ctx, j.day); err != nil {
		return Summary{}, err
	}
	s := Summary{ID: j.run, Account: j.Account, Day: j.day, Lines: j.loaded, Partial: !j.over(j.day)}
	found, err := j.q.WriteLineBreaks(ctx, dbsqlc.WriteLineBreaksParams{
		Account: j.Account, Day: dateOf(j.day), SeenAt: j.started, RunID: j.run, OwnPrefix: payment.OperatorPSPID,
		Shared: j.config.PSPs.Of(j.Psp).Traits().ForeignRecords,
	})
	if err != nil {
		return Summary{}, fmt.Errorf("compare lines: %w", err)
	}
	missing, err := j.judgeAbsent(ctx, &s)
	if err != nil {
		return Summary{}, err
	}
	s.Breaks = found + missing
	return s, j.conclude(ctx, &s)
}

// begin locks the account for this run, and creates the tables for its lines. Runs of two days at once would not see
// what the other one writes: the one an absence, and the other one the line that ends it.
func (j *judgement) begin(ctx context.Context) error {
	lock, err := j.q.TryLock(ctx, "statement "+j.Account)
	j.started = lock.At
	switch {
	case err != nil:
		return fmt.Errorf("lock account: %w", err)
	case !lock.Locked:
		return ErrBusy
	case !j.day.Before(j.started):
		return ErrNotYetDay
	}
	// Another run may have judged a later day since the account was found.
	found, err := j.q.FindAccounts(ctx, []string{j.Account})
	if err != nil {
		return fmt.Errorf("find account: %w", err)
	}
	for _, account := range found {
		j.Judged = account.Judged
	}
	// A COPY takes as long as the PSP takes. While it waits for lines, the session does not count as idle. It does
	// while the lines of a payout are read.
	// The temporary tables have no indexes: they are read as a whole.
	// In messages of their own: a setting may be passed on to other servers with all that its message has beside it.
	settings := "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;" + scansOn
	for _, message := range []string{settings, createTables} {
		if _, err := j.tx.Exec(ctx, message); err != nil {
			return fmt.Errorf("make room for lines: %w", err)
		}
	}
	return nil
}

// Only statements on the temporary tables may scan. A statement of those who are told stays prepared on the connection,
// with its plan.
const (
	scansOn  = "SET LOCAL enable_seqscan = on;"
	scansOff = "SET LOCAL enable_seqscan TO DEFAULT;"
)

// over reports whether a day's statement can no longer grow.
func (j *judgement) over(day time.Time) bool { return !day.Add(oneDay).After(j.started) }

// judgeAbsent finds the movements of the day that are in none of the statements. A movement is pending if it is open,
// or may be in a statement that is not published yet.
func (j *judgement) judgeAbsent(ctx context.Context, s *Summary) (missing int64, err error) {
	known := j.day.Add(oneDay) // the statements up to this time were read
	if known.After(j.started) {
		known = j.started
	}
	absent, err := j.findAbsent(ctx, known)
	if err == nil && absent.Before > 0 {
		absent, err = j.lookInto(ctx, j.day.Add(-oneDay), known)
	}
	for err == nil && absent.After > 0 && j.over(dayOf(known)) {
		var left dbsqlc.CountAbsentRow
		left, err = j.lookInto(ctx, known, known.Add(oneDay))
		if errors.Is(err, gateway.ErrNoStatement) {
			err = nil // It is not published yet, so the rest is pending.
			break
		}
		absent, known = left, known.Add(oneDay)
	}
	if err != nil {
		return 0, err
	}
	missing, err = j.q.WriteAbsences(ctx, dbsqlc.WriteAbsencesParams{
		Account: j.Account, Day: dateOf(j.day), SeenAt: j.started, RunID: j.run, Late: known,
	})
	if err != nil {
		return 0, fmt.Errorf("write absences: %w", err)
	}
	s.Pending = absent.Pending
	return missing, j.writePending(ctx, known)
}

// writePending replaces what the day's last run has left pending, and forgets what was pending of other days and is in
// this day's statement.
func (j *judgement) writePending(ctx context.Context, known time.Time) error {
	err := j.q.ForgetPending(ctx, dbsqlc.ForgetPendingParams{Account: j.Account, Day: dateOf(j.day)})
	if err != nil {
		return fmt.Errorf("forget pending movements: %w", err)
	}
	err = j.q.ForgetListed(ctx, dbsqlc.ForgetListedParams{Day: dateOf(j.day), Account: j.Account})
	if err != nil {
		return fmt.Errorf("forget listed movements: %w", err)
	}
	err = j.q.WritePending(ctx, dbsqlc.WritePendingParams{Account: j.Account, Day: dateOf(j.day), Late: known,
		RunID: j.run})
	if err != nil {
		return fmt.Errorf("write pending movements: %w", err)
	}
	return nil
}

// findAbsent finds the movements of the day that are not in the day's own statement, and counts them.
func (j *judgement) findAbsent(ctx context.Context, known time.Time) (n dbsqlc.CountAbsentRow, err error) {
	from, until := j.day.Add(-j.config.Skew), known.Add(-j.config.Skew)
	err = j.q.FindAbsent(ctx, dbsqlc.FindAbsentParams{
		Horizon: j.config.Horizon, Skew: j.config.Skew, Most: maxHorizon,
		TenantID: j.Tenant, CreatedFrom: from, CreatedUntil: until,
		FirstID: payments.FirstIDAt(from.Add(-payments.IDSkew)),
		LastID:  payments.FirstIDAt(until.Add(payments.IDSkew)),
	})
	if err != nil {
		return n, fmt.Errorf("find movements of the day: %w", err)
	}
	if err := j.keep(ctx); err != nil { // while statement_absent still has all of them
		return n, err
	}
	return j.countAbsent(ctx, j.day, known)
}

// lookInto looks for the absent movements in the statement of another day, and counts those that it does not have. If
// a later day has a statement, or was judged as a whole, a day without a statement had no movements.
func (j *judgement) lookInto(ctx context.Context, day, known time.Time) (absent dbsqlc.CountAbsentRow, err error) {
	err = j.load(ctx, day)
	empty := errors.Is(err, gateway.ErrNoStatement) &&
		(day.Before(j.day) || j.Judged.Valid && j.Judged.Time.After(day))
	if err != nil && !empty {
		return absent, fmt.Errorf("look into %s: %w", day.Format(time.DateOnly), err)
	}
	return j.countAbsent(ctx, day, known)
}

// countAbsent counts the absent movements without those that are in a day's statement.
func (j *judgement) countAbsent(ctx context.Context, day, known time.Time) (n dbsqlc.CountAbsentRow, err error) {
	if err := j.q.ForgetPresent(ctx, dateOf(day)); err != nil {
		return n, fmt.Errorf("look for the absent: %w", err)
	}
	n, err = j.q.CountAbsent(ctx, dbsqlc.CountAbsentParams{Early: j.day.Add(j.config.Skew), Late: known})
	if err != nil {
		return n, fmt.Errorf("count absent movements: %w", err)
	}
	return n, nil
}

// conclude writes the run, and has each new break judged.
func (j *judgement) conclude(ctx context.Context, s *Summary) (err error) {
	if s.Gone, err = j.markGone(ctx); err != nil {
		return err
	}
	status := "complete"
	if s.Partial {
		status = "partial"
	}
	err = j.q.WriteRun(ctx, dbsqlc.WriteRunParams{
		ID: j.run, Account: j.Account, Day: dateOf(j.day), StartedAt: j.started, Status: status, Lines: s.Lines,
		Breaks: s.Breaks, Pending: s.Pending,
	})
	if err != nil {
		return fmt.Errorf("write run: %w", err)
	}
	tell := func(b Break) error {
		s.New++
		return j.tell(ctx, b.Break)
	}
	return pages(ctx, j.q, *s, &j.run, tell)
}

// tell has a break judged as evidence, and counts it if it is new.
func (j *judgement) tell(ctx context.Context, b judge.Break) error {
	if !b.Listed {
		j.config.Metrics.Discrepancy("statement_" + string(b.Kind))
	}
	completed, err := j.config.Payments.BreakTx(ctx, j.tx, b)
	if completed {
		j.config.Metrics.Reconciled("resolved", string(judge.SourceStatement))
	}
	return err
}

// markGone marks the breaks that are gone, and has each movement judged that was missing and is in a statement that
// this run has read.
func (j *judgement) markGone(ctx context.Context) (gone int64, err error) {
	for {
		if _, err := j.tx.Exec(ctx, scansOn); err != nil {
			return 0, fmt.Errorf("let the run scan: %w", err)
		}
		page, err := j.q.MarkGone(ctx, dbsqlc.MarkGoneParams{SeenAt: j.started, Account: j.Account,
			Day: dateOf(j.day), RunID: j.run, MaxRows: pageRows})
		if err != nil {
			return 0, fmt.Errorf("mark what has gone: %w", err)
		}
		if _, err := j.tx.Exec(ctx, scansOff); err != nil {
			return 0, fmt.Errorf("end scans: %w", err)
		}
		for _, row := range page {
			if !row.Listed {
				continue
			}
			b := breakOf(dbsqlc.OpenBreaksRow{ID: row.ID, Account: j.Account, Day: row.Day, Object: row.Object,
				Kind: row.Kind, PspID: row.PspID, Subject: row.Subject})
			b.Listed = true
			if err := j.tell(ctx, b.Break); err != nil {
				return 0, err
			}
		}
		gone += int64(len(page))
		if len(page) < pageRows {
			return gone, nil
		}
	}
}
