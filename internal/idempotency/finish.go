package idempotency

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// QueueComplete queues in_progress → completed for the owner of the lease. *won is set when the fence let it through; the
// caller treats anything else as ErrLeaseLost.
func (k *Keys) QueueComplete(b *pgx.Batch, l Lease, r Response, won *bool) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).CompleteKey(context.Background(), completion(l, r))
	through(q, won)
}

// QueueRelease queues in_progress → failed_retryable for an owner who can prove that nothing was executed.
func (k *Keys) QueueRelease(b *pgx.Batch, l Lease, reason string, won *bool) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).ReleaseKey(context.Background(), dbsqlc.ReleaseKeyParams{
		Scope: string(l.ref.Scope), Key: l.ref.Key.value, Reason: reason,
		Attempt: l.attempt, Generation: l.generation,
	})
	through(q, won)
}

// QueueLose queues in_progress → unknown for an owner whose send may or may not have been executed. evidence is JSON or
// nil.
func (k *Keys) QueueLose(b *pgx.Batch, l Lease, reason string, evidence []byte, won *bool) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).LoseKey(context.Background(), dbsqlc.LoseKeyParams{
		Scope: string(l.ref.Scope), Key: l.ref.Key.value, Reason: reason, Evidence: evidence,
		FirstLookup: k.terms.FirstLookup,
		Attempt:     l.attempt, Generation: l.generation,
	})
	through(q, won)
}

// columns are a response's small numbers as they are stored.
func (r Response) columns() (status, version *int16) {
	s, v := int16(r.Status), int16(r.SchemaVersion) //nolint:gosec // HTTP statuses and a small constant
	return &s, &v
}

func completion(l Lease, r Response) dbsqlc.CompleteKeyParams {
	status, version := r.columns()
	return dbsqlc.CompleteKeyParams{
		Scope: string(l.ref.Scope), Key: l.ref.Key.value,
		Attempt: l.attempt, Generation: l.generation,
		ResponseStatus: status, ResponseContentType: &r.ContentType, ResponseLocation: &r.Location,
		ResponseSchemaVersion: version, ResponseBody: r.Body,
	}
}

// through records whether the statement queued last found the row that its fence asks for.
func through(q postgres.Queue, won *bool) {
	*won = false
	postgres.Scalar(q, func(expires *time.Time) error {
		*won = expires != nil
		return nil
	})
}
