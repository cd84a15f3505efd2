package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Note is a line of the key's timeline. The tenant can read it.
type Note struct {
	Actor    string // who moved the key: webhook, lookup, scan, …
	Reason   string
	Evidence []byte // JSON, or nil
}

// GuardResult is the result of a guarded statement: whether its guard has let it pass, and when the key expires.
type GuardResult struct {
	Passed  bool
	Expires time.Time
}

// Resolution is the final response of a key, from evidence.
type Resolution struct {
	Execution Execution
	Seen      Status // the key's status when the evidence was judged
	Note      Note
	Response  Response
	// UnlessCharged: the resolution does not pass while an open dead letter of the key says that money has moved.
	UnlessCharged bool
}

// Resolve is the call that completes keys by evidence. out gets a result for each resolution, in order. A resolution
// passes only if the key still has the status Seen. If it does not pass, read the key again. The resolutions must be of
// different keys.
func (k *Keys) Resolve(resolutions []Resolution, out *[]GuardResult) postgres.Call {
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
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).ResolveKeys(ctx, p)
		if err != nil {
			return err
		}
		*out = guardResults(resolutions, Resolution.ref, rows)
		return nil
	}
}

func (r Resolution) ref() Ref { return r.Execution.Ref }

// Proof says what proves that the request of an unknown key was not executed, besides a lookup that has found nothing.
type Proof struct {
	ByOperator bool // an operator vouches that the PSP has not forgotten the key
	// Final: the PSP has cancelled the request and can never execute it. So the grace period and the PSP's memory do
	// not count.
	Final bool
}

// ReleaseUnknown is the call of unknown → failed_retryable, after a lookup that has found nothing. asked is when the
// PSP was asked. The call does not pass unless the grace period was over then and the PSP still remembered the key. It
// never passes while an open dead letter forbids to release the key.
func (k *Keys) ReleaseUnknown(e Execution, asked time.Time, p Proof, n Note, out *GuardResult) postgres.Call {
	return guarded(out, func(ctx context.Context, q *dbsqlc.Queries) (time.Time, error) {
		return q.ReleaseUnknownKey(ctx, dbsqlc.ReleaseUnknownKeyParams{
			TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Subject: e.Subject,
			Generation: e.Generation, Attempt: e.Attempt,
			Retention: k.terms.Retention, GracePeriod: k.terms.GracePeriod, PspMemory: k.terms.PSPMemory,
			AskedAt: asked, ByOperator: p.ByOperator, Final: p.Final, Actor: n.Actor, Reason: n.Reason,
		})
	})
}

// Postpone is the call that sets the time of the next lookup of an unknown key. due is the time that was read before.
// failures counts the lookups in a row that had no answer. The call does not pass if the key is not unknown any more,
// or if its next lookup is due at another time by now. If it passes, the key stays unknown until the commit.
func (k *Keys) Postpone(
	e Execution, due time.Time, after time.Duration, failures int32, n Note, out *GuardResult,
) postgres.Call {
	return guarded(out, func(ctx context.Context, q *dbsqlc.Queries) (time.Time, error) {
		return q.PostponeKey(ctx, dbsqlc.PostponeKeyParams{
			TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Generation: e.Generation,
			Attempt: e.Attempt,
			SeenDue: due, After: after, LookupFailures: failures, Actor: n.Actor, Reason: n.Reason,
		})
	})
}

// Note is the call that writes a line of the timeline without a transition.
func (k *Keys) Note(e Execution, n Note) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).NoteEvent(ctx, dbsqlc.NoteEventParams{
			TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.value, Generation: e.Generation,
			Actor: n.Actor, Reason: n.Reason, Evidence: n.Evidence,
		})
	}
}

// LockKey is the call that locks the key, so that nobody can release the key before the transaction commits. It is sent
// before the statement that opens or closes a dead letter about this generation of the key. If the key has no row, its
// tombstone is locked, and made if there is none.
func (k *Keys) LockKey(ref Ref, generation int32) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).LockKey(ctx, dbsqlc.LockKeyParams{TenantID: ref.Tenant, Operation: string(ref.Operation),
			Key: ref.Key.value, Generation: generation})
	}
}

// guarded is the call of a statement that returns the key's expiry if it has passed its guard, and no row otherwise.
func guarded(
	out *GuardResult, statement func(context.Context, *dbsqlc.Queries) (expires time.Time, err error),
) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		expires, err := statement(ctx, dbsqlc.New(q))
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			*out = GuardResult{}
			return nil
		case err != nil:
			return err
		}
		*out = GuardResult{Passed: true, Expires: expires}
		return nil
	}
}
