package reconcile

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// The queues. Lookups wait for the PSP, so they have workers of their own: a PSP that hangs must not keep webhooks waiting.
const (
	scheduleQueue = river.QueueDefault
	resolveQueue  = "resolve"
	webhookQueue  = "webhook"
	// Two jobs for each tenant, and files of millions of lines: behind them, the sweep would wait its turn.
	ledgerQueue = "ledger"
)

// sweepArgs asks for all leases that are over.
type sweepArgs struct{}

// claimArgs asks for all unknown keys that are due.
type claimArgs struct{}

// resolveArgs asks for one key. The trigger discarded_jobs_become_letters reads these names in a job that was given up.
type resolveArgs struct {
	Tenant     string `json:"tenant" river:"unique"`
	Operation  string `json:"operation" river:"unique"`
	Key        string `json:"key" river:"unique"`
	Generation int32  `json:"generation" river:"unique"`
	// Subject is the payment or refund that the key stood for. A job of an earlier version has none.
	Subject uuid.UUID `json:"subject,omitzero" river:"unique"`
	// After is the job of the run before, if the queue has that as running still. It tells this one from it.
	After int64 `json:"after,omitzero" river:"unique"`
}

// webhookArgs asks for one stored event.
type webhookArgs struct {
	EventID string `json:"eventId" river:"unique"`
	After   int64  `json:"after,omitzero" river:"unique"` // as of resolveArgs
}

// scanArgs asks for all ledgers, scanLedgerArgs for one.
type (
	scanArgs       struct{}
	scanLedgerArgs struct {
		Account string `json:"account" river:"unique"`
		Object  string `json:"object" river:"unique"`
	}
)

// evidenceArgs asks for a record to be weighed again.
type evidenceArgs struct {
	Record jsontext.Value `json:"record" river:"unique"`
	After  int64          `json:"after,omitzero" river:"unique"` // as of resolveArgs
}

// pruneArgs asks for everything past its time.
type pruneArgs struct{}

func (sweepArgs) Kind() string      { return "sweep" }
func (claimArgs) Kind() string      { return "claim" }
func (resolveArgs) Kind() string    { return "resolve" }
func (webhookArgs) Kind() string    { return "webhook" }
func (scanArgs) Kind() string       { return "scan" }
func (scanLedgerArgs) Kind() string { return "scan_ledger" }
func (evidenceArgs) Kind() string   { return "evidence" }
func (pruneArgs) Kind() string      { return "prune" }

// The schedule makes the next one anyway: a run that fails is not repeated.
const scheduledAttempts = 1

// InsertOpts implements river.JobArgsWithInsertOpts.
func (scanLedgerArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{MaxAttempts: scheduledAttempts, Queue: ledgerQueue, UniqueOpts: whileOpen()}
}

// InsertOpts implements river.JobArgsWithInsertOpts. A key whose job is given up comes back by the next claim. It fails for the database's
// sake alone, whose troubles are no operator's case before they have lasted for about half an hour.
func (resolveArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{MaxAttempts: 15, Queue: resolveQueue, UniqueOpts: whileOpen()}
}

// InsertOpts implements river.JobArgsWithInsertOpts.
func (webhookArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{MaxAttempts: 20, Queue: webhookQueue, UniqueOpts: whileOpen()}
}

// InsertOpts implements river.JobArgsWithInsertOpts.
func (evidenceArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{MaxAttempts: 20, Queue: webhookQueue, UniqueOpts: whileOpen()}
}

// onceEvery is for a job of the schedule: one per interval, also while two processes both think that they keep the schedule. One that
// died with its process does not stand in the way of the next.
func onceEvery(interval time.Duration) *river.InsertOpts {
	opts := &river.InsertOpts{MaxAttempts: scheduledAttempts, Queue: scheduleQueue}
	if interval >= time.Second { // the finest period there is
		opts.UniqueOpts = river.UniqueOpts{ByPeriod: interval}
	}
	return opts
}

// whileOpen keeps one job of the same arguments in the queue. A completed one does not count: the same key may have to be resolved again.
func whileOpen() river.UniqueOpts {
	return river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
		rivertype.JobStateRetryable, rivertype.JobStateScheduled,
	}}
}

// backoff is when a failed job is run again: after 1, 2, 4, … seconds, at most 5 minutes, shortened by up to a half.
type backoff struct {
	now    func() time.Time
	jitter func() float64
}

const longestBackoff = 5 * time.Minute

// NextRetry implements river.ClientRetryPolicy.
func (b backoff) NextRetry(job *rivertype.JobRow) time.Time {
	wait := longestBackoff
	if failed := len(job.Errors); failed < 8 {
		wait = time.Second << failed
	}
	return b.now().Add(wait - time.Duration(b.jitter()*float64(wait)/2))
}
