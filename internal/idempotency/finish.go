package idempotency

import (
	"context"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// QueueComplete queues in_progress → completed for the owner of the lease. It passes where the fence lets it through: otherwise others have moved
// the key since. unlessCharged keeps it from passing, too, while an open dead letter of the key says that money moved.
func (k *Keys) QueueComplete(b *pgx.Batch, l Lease, unlessCharged bool, r Response, out *Passage) {
	q := postgres.On(b)
	p := completion(l, r)
	p.UnlessCharged = unlessCharged
	_, _ = dbsqlc.New(q).CompleteKey(context.Background(), p)
	passage(q, out)
}

// QueueRelease queues in_progress → failed_retryable for an owner who can prove that nothing was executed. It does not pass while an open dead letter holds
// the key.
func (k *Keys) QueueRelease(b *pgx.Batch, l Lease, reason string, out *Passage) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).ReleaseKey(context.Background(), dbsqlc.ReleaseKeyParams{
		TenantID: l.ref.Tenant, Operation: string(l.ref.Operation), Key: l.ref.Key.value, Reason: reason,
		Attempt: l.attempt, Generation: l.generation,
	})
	passage(q, out)
}

// QueueLose queues in_progress → unknown for an owner whose send may or may not have been executed. evidence is JSON or
// nil.
func (k *Keys) QueueLose(b *pgx.Batch, l Lease, reason string, evidence []byte, out *Passage) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).LoseKey(context.Background(), dbsqlc.LoseKeyParams{
		TenantID: l.ref.Tenant, Operation: string(l.ref.Operation), Key: l.ref.Key.value, Reason: reason, Evidence: evidence,
		FirstLookup: k.terms.FirstLookup,
		Attempt:     l.attempt, Generation: l.generation,
	})
	passage(q, out)
}

// columns are a response's small numbers as they are stored.
func (r Response) columns() (status, version *int16) {
	s, v := int16(r.Status), int16(r.SchemaVersion) //nolint:gosec // HTTP statuses and a small constant
	return &s, &v
}

func completion(l Lease, r Response) dbsqlc.CompleteKeyParams {
	status, version := r.columns()
	return dbsqlc.CompleteKeyParams{
		TenantID: l.ref.Tenant, Operation: string(l.ref.Operation), Key: l.ref.Key.value,
		Attempt: l.attempt, Generation: l.generation,
		ResponseStatus: status, ResponseContentType: &r.ContentType, ResponseLocation: &r.Location,
		ResponseSchemaVersion: version, ResponseBody: r.Body,
	}
}
