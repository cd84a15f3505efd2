package reconcile

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"payonce/internal/gateway"
	"payonce/internal/payments"
)

// Bounds of one run over one ledger: 5000 records, and no page is begun after the time for reading. A ledger that is further behind goes on in the
// next run, at once. Records of one and the same time are read in one run or not at all, so it should not be cut short without need.
const (
	scanPages = 50
	scanReads = 40 * time.Second
)

// scanTimeout leaves time for a last page that takes as long as a PSP may. A run that is cut all the same has not been for nothing: the
// next one goes on where it was. River's rescuer heeds it, so it is below rescueAfter: a run that has died with its process keeps its place in
// the queue until it is taken for dead, and nobody else scans the ledger before that.
const scanTimeout = time.Minute

// stalledPause is before a run that would begin where the last one did.
const stalledPause = 5 * time.Second

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

// Timeout implements river.Worker.
func (w *scanLedger) Timeout(*river.Job[scanLedgerArgs]) time.Duration { return scanTimeout }

func (w *scanLedger) Work(ctx context.Context, job *river.Job[scanLedgerArgs]) error {
	reading, cancel := context.WithTimeout(ctx, scanReads)
	defer cancel()
	progress, err := w.r.payments.Scan(ctx, gateway.Object(job.Args.Object), job.Args.Account, w.r.settings.ScanOverlap, scanPages, reading.Done(),
		func(f payments.Finding) { w.r.countFinding(f, payments.SourceScan) })
	if err != nil {
		return err
	}
	return nextRun(progress)
}

// nextRun says when to go on, if there is more to read than one run does.
func nextRun(p payments.Progress) error {
	switch p {
	case payments.GotOn:
		return river.JobSnooze(0) // behind: at once, not at the next turn
	case payments.Stalled:
		return river.JobSnooze(stalledPause)
	case payments.ReachedEnd:
	}
	return nil
}
