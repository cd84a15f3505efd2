package reconcile

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/webhooks"
)

// The queues. Lookups wait for the PSP, so they have their own workers. A PSP that hangs must not make webhooks wait.
const (
	scheduleQueue = river.QueueDefault
	lookupQueue   = "resolve"
	webhookQueue  = "webhook"
	// ledgerQueue has two jobs for each tenant. If they shared the schedule's queue, the sweep would wait for them.
	ledgerQueue = "ledger"
)

// sweepArgs is the job that makes all keys unknown whose leases are over.
type sweepArgs struct{}

// claimArgs is the job that enqueues the lookups of all unknown keys that are due.
type claimArgs struct{}

// lookupArgs is the job that looks up one key. The trigger discarded_jobs_become_dead_letters reads these names in a
// discarded job.
type lookupArgs struct {
	Tenant     string `json:"tenant" river:"unique"`
	Operation  string `json:"operation" river:"unique"`
	Key        string `json:"key" river:"unique"`
	Generation int32  `json:"generation" river:"unique"`
	// Subject is the payment or refund that the key stands for. A job of an earlier version has none.
	Subject uuid.UUID `json:"subject,omitzero" river:"unique"`
	// After is the id of the previous job, if that job still counts as running. It makes the new job different from the
	// previous one.
	After int64 `json:"after,omitzero" river:"unique"`
}

// webhookArgs is the job that processes one stored event.
type webhookArgs struct {
	EventID string `json:"eventId" river:"unique"`
	After   int64  `json:"after,omitzero" river:"unique"` // as in lookupArgs
}

const webhookAttempts = 20

// WebhookJob is the job of an event, for the statement that stores the event.
func WebhookJob() webhooks.Job {
	return webhooks.Job{Kind: webhookArgs{}.Kind(), Queue: webhookQueue, MaxAttempts: webhookAttempts}
}

// scanArgs is the job that enqueues the scans of all ledgers. scanLedgerArgs is the scan of one ledger.
type (
	scanArgs       struct{}
	scanLedgerArgs struct {
		Account string `json:"account" river:"unique"`
		Object  string `json:"object" river:"unique"`
	}
)

// evidenceArgs is the job that judges a record again.
type evidenceArgs struct {
	Record jsontext.Value `json:"record" river:"unique"`
	After  int64          `json:"after,omitzero" river:"unique"` // as in lookupArgs
}

// pruneArgs is the job that expires and deletes what has been kept long enough.
type pruneArgs struct{}

func (sweepArgs) Kind() string      { return "sweep" }
func (claimArgs) Kind() string      { return "claim" }
func (lookupArgs) Kind() string     { return "resolve" }
func (webhookArgs) Kind() string    { return "webhook" }
func (scanArgs) Kind() string       { return "scan" }
func (scanLedgerArgs) Kind() string { return "scan_ledger" }
func (evidenceArgs) Kind() string   { return "evidence" }
func (pruneArgs) Kind() string      { return "prune" }

// scheduledAttempts is 1, because the schedule makes the next job anyway. A run that has failed is not repeated.
const scheduledAttempts = 1

// InsertOpts implements river.JobArgsWithInsertOpts.
func (scanLedgerArgs) InsertOpts() river.InsertOpts { return whileOpen(ledgerQueue, scheduledAttempts) }

// InsertOpts implements river.JobArgsWithInsertOpts. If a job is discarded, ClaimDueTx returns its key again later. A
// job fails only because of the database. So a dead letter for an operator is opened only after the database has failed
// for about half an hour.
func (lookupArgs) InsertOpts() river.InsertOpts { return whileOpen(lookupQueue, 15) }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (webhookArgs) InsertOpts() river.InsertOpts { return whileOpen(webhookQueue, webhookAttempts) }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (evidenceArgs) InsertOpts() river.InsertOpts { return whileOpen(webhookQueue, webhookAttempts) }

// onceEvery is for a job of the schedule. There is one job in each interval, even if two processes both believe that
// they run the schedule. A job that has died with its process does not block the next one.
func onceEvery(interval time.Duration) *river.InsertOpts {
	opts := &river.InsertOpts{MaxAttempts: scheduledAttempts, Queue: scheduleQueue}
	if interval >= time.Second { // River has no shorter period.
		opts.UniqueOpts = river.UniqueOpts{ByPeriod: interval}
	}
	return opts
}

// whileOpen allows only one unfinished job with the same arguments. A completed job does not count, because the same
// key may have to be looked up again.
func whileOpen(queue string, attempts int) river.InsertOpts {
	return river.InsertOpts{Queue: queue, MaxAttempts: attempts, UniqueOpts: river.UniqueOpts{
		ByArgs: true, ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
			rivertype.JobStateRetryable, rivertype.JobStateScheduled,
		}}}
}

// backoff sets when a failed job runs again: after 1, 2, 4, … seconds, at most 5 minutes. Each wait is shortened by up
// to a half.
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
