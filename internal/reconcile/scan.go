package reconcile

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"payonce/internal/gateway"
	"payonce/internal/payments"
)

// scanPages bounds one run over one ledger: 5000 records. A ledger that is further behind goes on in the next run.
const scanPages = 50

// scan enqueues the scan of every account's ledgers. One that is still in the queue is not put there twice.
type scan struct {
	river.WorkerDefaults[scanArgs]

	r *Reconciler
}

func (w *scan) Work(ctx context.Context, _ *river.Job[scanArgs]) error {
	return w.r.payments.Accounts(ctx, func(account string) error {
		_, err := w.r.client.InsertMany(ctx, []river.InsertManyParams{
			{Args: scanLedgerArgs{Account: account, Object: string(gateway.ChargeObject)}},
			{Args: scanLedgerArgs{Account: account, Object: string(gateway.RefundObject)}},
		})
		return err
	})
}

// scanLedger compares one account's list of charges, or of refunds, with our books.
type scanLedger struct {
	river.WorkerDefaults[scanLedgerArgs]

	r *Reconciler
}

func (w *scanLedger) Work(ctx context.Context, job *river.Job[scanLedgerArgs]) error {
	more, err := w.r.payments.Scan(ctx, gateway.Object(job.Args.Object), job.Args.Account, w.r.settings.ScanOverlap, scanPages,
		func(f payments.Finding) { w.r.countFinding(f, payments.SourceScan) })
	if err == nil && more {
		// Behind by more than one run: go on at once, not at the next turn.
		return river.JobSnooze(0)
	}
	return err
}

// statement compares a day's settlement files with our books.
type statement struct {
	river.WorkerDefaults[statementArgs]

	r *Reconciler
}

// statementTimeout is for millions of lines. River's rescuer heeds it.
const statementTimeout = time.Hour

// Timeout implements river.Worker.
func (w *statement) Timeout(*river.Job[statementArgs]) time.Duration { return statementTimeout }

func (w *statement) Work(ctx context.Context, job *river.Job[statementArgs]) error {
	return w.r.statement(ctx, job.Args.Day)
}
