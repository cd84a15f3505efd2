package idempotency

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Note is what the key's timeline says of a transition. The tenant can read it.
type Note struct {
	Actor    string // who: webhook, lookup, scan, …
	Reason   string
	Evidence []byte // JSON, or nil
}

// Passage is what became of a guarded statement: whether the guard let it through, and when the key expires now.
type Passage struct {
	Through bool
	Expires time.Time
}

// QueueSettle queues the completion of a key by evidence, from the status in which it was seen. Whoever moves the key in between
// keeps the statement from passing: look again then. unlessCharged keeps it from passing, too, while an open dead letter of the key says that
// money moved.
func (k *Keys) QueueSettle(b *pgx.Batch, e Execution, seen Status, unlessCharged bool, n Note, r Response, out *Passage) {
	q := postgres.On(b)
	status, version := r.columns()
	_, _ = dbsqlc.New(q).SettleKey(context.Background(), dbsqlc.SettleKeyParams{
		TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Subject: e.Subject, Generation: e.Generation, Attempt: e.Attempt,
		Seen: string(seen), UnlessCharged: unlessCharged, Actor: n.Actor, Reason: n.Reason, Evidence: n.Evidence, Retention: k.terms.Retention,
		ResponseStatus: status, ResponseContentType: &r.ContentType, ResponseLocation: &r.Location,
		ResponseSchemaVersion: version, ResponseBody: r.Body,
	})
	passage(q, out)
}

// QueueReleaseUnknown queues unknown → failed_retryable, on the proof that a question asked at a time found nothing. It does not
// pass unless the settle window was over then, the PSP remembered the key, and no operator has the case. byOperator puts an operator's word in the place of
// the PSP's memory.
func (k *Keys) QueueReleaseUnknown(b *pgx.Batch, e Execution, asked time.Time, byOperator bool, n Note, out *Passage) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).ReleaseUnknownKey(context.Background(), dbsqlc.ReleaseUnknownKeyParams{
		TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Subject: e.Subject, Generation: e.Generation, Attempt: e.Attempt,
		Retention: k.terms.Retention, SettleWindow: k.terms.SettleWindow, PspMemory: k.terms.PSPMemory,
		AskedAt: asked, ByOperator: byOperator, Actor: n.Actor, Reason: n.Reason,
	})
	passage(q, out)
}

// QueuePostpone queues the next lookup of an unknown key, of which due was seen as the time of its next lookup. failures is how many in a row the PSP has not
// answered. It does not pass when the key is not unknown any more, or due at another time; when it does, the key stays unknown until the commit.
func (k *Keys) QueuePostpone(b *pgx.Batch, e Execution, due time.Time, after time.Duration, failures int32, n Note, out *Passage) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).PostponeKey(context.Background(), dbsqlc.PostponeKeyParams{
		TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Generation: e.Generation, Attempt: e.Attempt,
		SeenDue: due, After: after, LookupFailures: failures, Actor: n.Actor, Reason: n.Reason,
	})
	passage(q, out)
}

// QueueNote queues a line of the timeline that goes with no transition.
func (k *Keys) QueueNote(b *pgx.Batch, e Execution, n Note) {
	_ = dbsqlc.New(postgres.On(b)).NoteEvent(context.Background(), dbsqlc.NoteEventParams{
		TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Generation: e.Generation,
		Actor: n.Actor, Reason: n.Reason, Evidence: n.Evidence,
	})
}

// QueueHold queues a lock on the key, for what must not be overtaken by its release. It comes before whatever it protects.
func (k *Keys) QueueHold(b *pgx.Batch, ref Ref) {
	_ = dbsqlc.New(postgres.On(b)).HoldKey(context.Background(), dbsqlc.HoldKeyParams{TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.value})
}

// passage records whether the statement queued last found the row that its guard asks for.
func passage(q postgres.Queue, out *Passage) {
	*out = Passage{}
	postgres.Scalar(q, func(expires *time.Time) error {
		if expires != nil {
			*out = Passage{Through: true, Expires: *expires}
		}
		return nil
	})
}
