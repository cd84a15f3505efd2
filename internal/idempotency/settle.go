package idempotency

import (
	"context"
	"errors"
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

// Resolution is the final response of a key, from evidence.
type Resolution struct {
	Execution Execution
	Seen      Status // the key's, when the evidence was held against it
	Note      Note
	Response  Response
	// UnlessCharged: it does not pass while an open dead letter of the key says that money moved.
	UnlessCharged bool
}

// Resolve is the call of the completion of keys by evidence, from the statuses in which they were seen. It gives a passage for each, in order. Whoever moves
// a key in between keeps its resolution from passing: look again then. The resolutions are of different keys.
func (k *Keys) Resolve(resolutions []Resolution, out *[]Passage) postgres.Call {
	p := dbsqlc.ResolveKeysParams{Retention: k.terms.Retention}
	for _, r := range resolutions {
		p.TenantIds = append(p.TenantIds, r.Execution.Ref.Tenant)
		p.Operations = append(p.Operations, string(r.Execution.Ref.Operation))
		p.Keys = append(p.Keys, r.Execution.Ref.Key.value)
		p.Subjects = append(p.Subjects, r.Execution.Subject)
		p.Generations = append(p.Generations, r.Execution.Generation)
		p.Attempts = append(p.Attempts, r.Execution.Attempt)
		p.Seen = append(p.Seen, string(r.Seen))
		p.UnlessCharged = append(p.UnlessCharged, r.UnlessCharged)
		p.Actors = append(p.Actors, r.Note.Actor)
		p.Reasons = append(p.Reasons, r.Note.Reason)
		p.Evidence = append(p.Evidence, r.Note.Evidence)
		status, version := r.Response.columns()
		p.ResponseStatuses = append(p.ResponseStatuses, status)
		p.ResponseContentTypes = append(p.ResponseContentTypes, r.Response.ContentType)
		p.ResponseLocations = append(p.ResponseLocations, r.Response.Location)
		p.ResponseSchemaVersions = append(p.ResponseSchemaVersions, version)
		p.ResponseBodies = append(p.ResponseBodies, r.Response.Body)
	}
	p.OnlyTenant = k.db.OnlyTenant(p.TenantIds)
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).ResolveKeys(ctx, p)
		if err != nil {
			return err
		}
		*out = passages(resolutions, Resolution.ref, rows)
		return nil
	}
}

func (r Resolution) ref() Ref { return r.Execution.Ref }

// ReleaseUnknown is the call of unknown → failed_retryable, on the proof that a question asked at a time found nothing. It does not
// pass unless the settle window was over then, the PSP remembered the key, and no operator has the case. byOperator puts an operator's word in the place of
// the PSP's memory.
func (k *Keys) ReleaseUnknown(e Execution, asked time.Time, byOperator bool, n Note, out *Passage) postgres.Call {
	return guarded(out, func(ctx context.Context, q *dbsqlc.Queries) (time.Time, error) {
		return q.ReleaseUnknownKey(ctx, dbsqlc.ReleaseUnknownKeyParams{
			TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Subject: e.Subject, Generation: e.Generation, Attempt: e.Attempt,
			Retention: k.terms.Retention, SettleWindow: k.terms.SettleWindow, PspMemory: k.terms.PSPMemory,
			AskedAt: asked, ByOperator: byOperator, Actor: n.Actor, Reason: n.Reason,
		})
	})
}

// Postpone is the call of the next lookup of an unknown key, of which due was seen as the time of its next lookup. failures is how many in a row the PSP has
// not answered. It does not pass when the key is not unknown any more, or due at another time; when it does, the key stays unknown until the commit.
func (k *Keys) Postpone(e Execution, due time.Time, after time.Duration, failures int32, n Note, out *Passage) postgres.Call {
	return guarded(out, func(ctx context.Context, q *dbsqlc.Queries) (time.Time, error) {
		return q.PostponeKey(ctx, dbsqlc.PostponeKeyParams{
			TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Generation: e.Generation, Attempt: e.Attempt,
			SeenDue: due, After: after, LookupFailures: failures, Actor: n.Actor, Reason: n.Reason,
		})
	})
}

// Note is the call of a line of the timeline that goes with no transition.
func (k *Keys) Note(e Execution, n Note) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).NoteEvent(ctx, dbsqlc.NoteEventParams{
			TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Generation: e.Generation,
			Actor: n.Actor, Reason: n.Reason, Evidence: n.Evidence,
		})
	}
}

// Hold is the call of a lock on the key, for what must not be overtaken by its release. It comes before whatever it protects.
func (k *Keys) Hold(ref Ref) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).HoldKey(ctx, dbsqlc.HoldKeyParams{TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.value})
	}
}

// guarded is the call of a statement that gives the key's expiry if its guard has let it through, and no row otherwise.
func guarded(out *Passage, statement func(context.Context, *dbsqlc.Queries) (expires time.Time, err error)) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		expires, err := statement(ctx, dbsqlc.New(q))
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			*out = Passage{}
			return nil
		case err != nil:
			return err
		}
		*out = Passage{Through: true, Expires: expires}
		return nil
	}
}
