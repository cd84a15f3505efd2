package reconcile

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"payonce/internal/gateway"
	"payonce/internal/judge"
)

// Bounds of one run over one ledger: 5000 records, and no page begins after the time for reading. If there is more, the
// next run begins at once. Records with the same time must be read in one run, because the next run begins at a time.
// So a run should not be cut short without need.
const (
	scanPages = 50
	scanReads = 40 * time.Second
)

// scanTimeout leaves time for a last page that is as slow as the PSP may be. A run that is cut off is not lost: the
// next one continues at its position. River's rescuer uses scanTimeout, too, so it is below rescueAfter. The job of a
// process that has died stays in the queue until the rescuer takes it, and nobody else scans the ledger before that.
const scanTimeout = time.Minute

// stalledPause is the pause before a run that would begin where the last one began.
const stalledPause = 5 * time.Second

// enqueueScans enqueues the scans of every account's ledgers. A scan that is still in the queue is not enqueued again.
func (r *Reconciler) enqueueScans(ctx context.Context, _ *river.Job[scanArgs]) error {
	for account, err := range r.Accounts(ctx) {
		if err != nil {
			return err
		}
		_, err := r.client.InsertMany(ctx, []river.InsertManyParams{
			{Args: scanLedgerArgs{Account: account, Object: string(gateway.ChargeObject)}},
			{Args: scanLedgerArgs{Account: account, Object: string(gateway.RefundObject)}},
			{Args: scanLedgerArgs{Account: account, Object: string(gateway.DisputeObject)}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scanLedger compares one account's list of charges, or of refunds, with our books.
func (r *Reconciler) scanLedger(ctx context.Context, job *river.Job[scanLedgerArgs]) error {
	reading, cancel := context.WithTimeout(ctx, scanReads)
	defer cancel()
	progress, effects, err := r.Scan(ctx, gateway.Object(job.Args.Object), job.Args.Account, scanPages,
		reading.Done())
	for _, effect := range effects {
		r.countEffect(effect, judge.SourceScan)
	}
	if err != nil {
		return err
	}
	return nextRun(progress)
}

// nextRun says when the scan continues, if there is more to read.
func nextRun(p Progress) error {
	switch p {
	case GotOn:
		return river.JobSnooze(0) // The ledger is behind, so the next run begins at once.
	case Stalled:
		return river.JobSnooze(stalledPause)
	case ReachedEnd:
	}
	return nil
}
