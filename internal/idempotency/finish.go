package idempotency

import (
	"context"
	"time"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Completion is the final response of a key, from the owner of its lease.
type Completion struct {
	Lease    Lease
	Response Response
	// UnlessCharged: the completion does not pass while an open dead letter of the key says that money has moved.
	UnlessCharged bool
	// Tells: an event follows in the transaction. Without it, no completion passes of a tenant that wants events.
	Tells bool
}

// Complete is the call of in_progress → completed, for the owners of the leases. out gets a result for each completion,
// in order. A completion does not pass if somebody else has moved the key since it was reserved. The completions must
// be of different keys.
func (k *Keys) Complete(completions []Completion, out *[]GuardResult) postgres.Call {
	var p dbsqlc.CompleteKeysParams
	for _, c := range completions {
		p.TenantIds = append(p.TenantIds, c.Lease.Ref.Tenant)
		p.Operations = append(p.Operations, string(c.Lease.Ref.Operation))
		p.Keys = append(p.Keys, c.Lease.Ref.Key.value)
		p.Generations = append(p.Generations, c.Lease.Generation)
		p.Attempts = append(p.Attempts, c.Lease.Attempt)
		p.UnlessCharged = append(p.UnlessCharged, c.UnlessCharged)
		p.Tells = append(p.Tells, c.Tells)
		status, version := c.Response.columns()
		p.ResponseStatuses = append(p.ResponseStatuses, status)
		p.ResponseContentTypes = append(p.ResponseContentTypes, c.Response.ContentType)
		p.ResponseLocations = append(p.ResponseLocations, c.Response.Location)
		p.ResponseSchemaVersions = append(p.ResponseSchemaVersions, version)
		p.ResponseBodies = append(p.ResponseBodies, c.Response.Body)
	}
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).CompleteKeys(ctx, p)
		if err != nil {
			return err
		}
		*out = guardResults(completions, Completion.ref, rows)
		return nil
	}
}

func (c Completion) ref() Ref { return c.Lease.Ref }

// guardResults gives each key its result, in order. rows are the keys that the statement has moved. A key without a row
// gets the zero value: it has not passed.
func guardResults[Key any, Row dbsqlc.CompleteKeysRow | dbsqlc.ResolveKeysRow](
	keys []Key, ref func(Key) Ref, rows []Row,
) []GuardResult {
	passed := make(map[Ref]GuardResult, len(rows))
	for _, row := range rows {
		moved := dbsqlc.CompleteKeysRow(row)
		passed[StoredRef(moved.TenantID, moved.Operation, moved.Key)] = GuardResult{Passed: true,
			Expires: moved.ExpiresAt}
	}
	out := make([]GuardResult, len(keys))
	for i, key := range keys {
		out[i] = passed[ref(key)]
	}
	return out
}

// Release is the call of in_progress → failed_retryable, for an owner who can prove that nothing was executed. It does
// not pass while an open dead letter forbids to release the key.
func (k *Keys) Release(l Lease, reason string, tells bool, out *GuardResult) postgres.Call {
	return guarded(out, func(ctx context.Context, q *dbsqlc.Queries) (time.Time, error) {
		return q.ReleaseKey(ctx, dbsqlc.ReleaseKeyParams{
			TenantID: l.Ref.Tenant, Operation: string(l.Ref.Operation), Key: l.Ref.Key.value, Reason: reason,
			Attempt: l.Attempt, Generation: l.Generation, Tells: tells,
		})
	})
}

// Lose is the call of in_progress → unknown, for an owner who does not know whether its request was executed. evidence
// is JSON or nil. tells is as in a Completion.
func (k *Keys) Lose(l Lease, reason string, evidence []byte, tells bool, out *GuardResult) postgres.Call {
	return guarded(out, func(ctx context.Context, q *dbsqlc.Queries) (time.Time, error) {
		return q.LoseKey(ctx, dbsqlc.LoseKeyParams{
			TenantID: l.Ref.Tenant, Operation: string(l.Ref.Operation), Key: l.Ref.Key.value, Reason: reason,
			Evidence:    evidence,
			FirstLookup: k.terms.FirstLookup,
			Attempt:     l.Attempt, Generation: l.Generation, Tells: tells,
		})
	})
}

// columns are the status and the schema version in the types of their columns.
func (r Response) columns() (status, version int16) {
	return int16(r.Status), int16(r.SchemaVersion) //nolint:gosec // HTTP statuses and a small constant
}
