package idempotency

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds every wait for an event. Reaching it is a failure, not a measurement.
const patience = time.Minute

// bench is a store of keys on a database of the test's own.
type bench struct {
	t    *testing.T
	pool *pgxpool.Pool // straight to the tables
	db   *postgres.DB
	keys *Keys
	ref  Ref // the key that most tests are about
}

func setup(t *testing.T) *bench {
	t.Helper()
	pool := pgtest.New(t)
	db := postgres.Wrap(pool, patience)
	b := &bench{t: t, pool: pool, db: db, ref: refOf(t, "acme", "order-0000000042")}
	b.keys = New(db, testTerms(), time.Now)
	return b
}

// again takes back all that the test has done, for the next case of a table.
func (b *bench) again() *bench {
	b.t.Helper()
	b.exec(`ALTER TABLE idempotency_keys DISABLE TRIGGER USER;
		ALTER TABLE idempotency_key_events DISABLE TRIGGER USER;
		ALTER TABLE idempotency_key_tombstones DISABLE TRIGGER USER;
		TRUNCATE idempotency_keys, idempotency_key_events, idempotency_key_tombstones;
		ALTER TABLE idempotency_keys ENABLE TRIGGER USER;
		ALTER TABLE idempotency_key_events ENABLE TRIGGER USER;
		ALTER TABLE idempotency_key_tombstones ENABLE TRIGGER USER`)
	return b
}

func testTerms() Terms {
	return Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour,
		GracePeriod: 90 * time.Second, FirstLookup: 10 * time.Second, Audit: 30 * 24 * time.Hour,
	}
}

func refOf(t testing.TB, tenant, key string) Ref {
	t.Helper()
	k, err := ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Ref{Tenant: tenant, Operation: "POST /payments", Key: k}
}

// asked is the fingerprint of a request that said this.
func asked(what string) Fingerprint { return sha256.Sum256([]byte(what)) }

// reservation is a new reservation of the test's key, by a request that asks for an apple.
func (b *bench) reservation() Reservation { return b.reservationOf("apple") }

func (b *bench) reservationOf(what string) Reservation {
	return b.keys.NewReservation(b.ref, asked(what), uuid.New(), uuid.New())
}

// send runs calls as one transaction.
func (b *bench) send(calls ...postgres.Call) {
	b.t.Helper()
	if err := b.db.Pipeline(b.t.Context(), calls...); err != nil {
		b.t.Fatalf("send: %v", err)
	}
}

// statement is the call of a statement without arguments.
func statement(sql string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		_, err := q.Exec(ctx, sql)
		return err
	}
}

// one is the call of a step over many keys, for one.
func one[Key, Out any](step func([]Key, *[]Out) postgres.Call, key Key, out *Out) postgres.Call {
	var all []Out
	call := step([]Key{key}, &all)
	return func(ctx context.Context, q postgres.Statement) error {
		err := call(ctx, q)
		if err == nil {
			*out = all[0]
		}
		return err
	}
}

func (b *bench) reserving(r Reservation, out *Decision) postgres.Call {
	return one(b.keys.reserve, Try{Reservation: r}, out)
}

func (b *bench) completing(l Lease, unlessCharged bool, r Response, out *GuardResult) postgres.Call {
	return one(b.keys.Complete, Completion{Lease: l, Response: r, UnlessCharged: unlessCharged}, out)
}

func (b *bench) resolving(
	e Execution, seen Status, unlessCharged bool, n Note, r Response, out *GuardResult,
) postgres.Call {
	return one(b.keys.Resolve, Resolution{Execution: e, Seen: seen, Note: n, Response: r, UnlessCharged: unlessCharged},
		out)
}

func (b *bench) reserve(r Reservation) (d Decision) {
	b.t.Helper()
	b.send(b.reserving(r, &d))
	return d
}

func (b *bench) retake(r Reservation, free Free) (d Decision) {
	b.t.Helper()
	b.send(b.keys.retake(r, free.snapshot, &d))
	return d
}

func (b *bench) complete(l Lease, r Response) bool {
	b.t.Helper()
	var out GuardResult
	b.send(b.completing(l, false, r, &out))
	return out.Passed
}

func (b *bench) completeLost(l Lease, r Response) (won bool) {
	b.t.Helper()
	var out GuardResult
	b.send(b.resolving(l.Execution(), UnknownStatus, false, Note{Actor: "owner", Reason: "late success"}, r, &out))
	return out.Passed
}

func (b *bench) release(l Lease) bool {
	b.t.Helper()
	var out GuardResult
	b.send(b.keys.Release(l, "no connection", false, &out))
	return out.Passed
}

func (b *bench) lose(l Lease) bool {
	b.t.Helper()
	var out GuardResult
	b.send(b.keys.Lose(l, "no answer", []byte(`{"status":500}`), false, &out))
	return out.Passed
}

func (b *bench) expireLease(l InProgress) {
	b.t.Helper()
	b.send(b.keys.expireLease(l.KeyRow))
}

// own reserves the test's key for a new owner.
func (b *bench) own() Lease {
	b.t.Helper()
	return is[Execute](b.t, b.reserve(b.reservation())).Lease
}

// tries are the first tries of reservations.
func tries(of ...Reservation) (all []Try) {
	for _, r := range of {
		all = append(all, Try{Reservation: r})
	}
	return all
}

// isOver checks that the key is in progress, and its lease over.
func isOver(t testing.TB, d Decision) InProgress {
	t.Helper()
	v := is[InProgress](t, d)
	if !v.leaseOver {
		t.Fatal("the lease is not over")
	}
	return v
}

// is checks which of its cases a decision is.
func is[D Decision](t testing.TB, d Decision) D {
	t.Helper()
	v, ok := d.(D)
	if !ok {
		t.Fatalf("decision is %T, want %T", d, v)
	}
	return v
}

func (b *bench) row() KeyRow {
	b.t.Helper()
	r, err := b.keys.Find(b.t.Context(), b.ref)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) wantStatus(want Status, attempt, generation int32) {
	b.t.Helper()
	if r := b.row(); r.Status != want || r.Attempt != attempt || r.Generation != generation {
		b.t.Fatalf("key is %s, attempt %d, generation %d; want %s, %d, %d", r.Status, r.Attempt, r.Generation, want,
			attempt, generation)
	}
}

func (b *bench) events() []Event {
	b.t.Helper()
	events, err := b.keys.Events(b.t.Context(), b.ref)
	if err != nil {
		b.t.Fatal(err)
	}
	return events
}

// wantTimeline compares the key's events, each as "actor from>to attempt/generation reason".
func (b *bench) wantTimeline(want ...string) {
	b.t.Helper()
	var got []string
	for _, e := range b.events() {
		got = append(got, fmt.Sprintf("%s %s>%s %d/%d %s", e.Actor, e.From, e.To, e.Attempt, e.Generation, e.Reason))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Fatalf("timeline differs (-want +got):\n%s", diff)
	}
}

// sameKey lets cmp look at keys, which show nothing of themselves.
func sameKey(a, b Key) bool { return a == b }

func statuses() []Status {
	return []Status{InProgressStatus, CompletedStatus, FailedRetryableStatus, UnknownStatus, ExpiredStatus}
}

// putInto brings the test's key into a status, on the way that a key takes there. A key that is there has attempt 1 of
// generation 1.
func (b *bench) putInto(status Status) Lease {
	b.t.Helper()
	lease := b.own()
	won := true
	switch status {
	case InProgressStatus:
	case CompletedStatus:
		won = b.complete(lease, answer("done"))
	case FailedRetryableStatus:
		won = b.release(lease)
	case UnknownStatus:
		won = b.lose(lease)
	case ExpiredStatus:
		won = b.complete(lease, answer("done"))
		b.expire()
	}
	if !won {
		b.t.Fatalf("key did not become %s", status)
	}
	return lease
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	pgtest.Exec(b.t, b.pool, sql, args...)
}

func (b *bench) count(sql string, args ...any) int {
	b.t.Helper()
	return pgtest.Value[int](b.t, b.pool, sql, args...)
}

// endLease lets the lease of the test's key run out, as time would.
func (b *bench) endLease() {
	b.t.Helper()
	b.unguarded("UPDATE idempotency_keys SET locked_until = clock_timestamp() - interval '1 millisecond'")
}

// unguarded runs a statement that plays the passing of time, behind the back of the triggers.
func (b *bench) unguarded(sql string, args ...any) {
	b.t.Helper()
	b.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	b.exec(sql, args...)
	b.exec("ALTER TABLE idempotency_keys ENABLE TRIGGER USER")
}

// expire lets the retention of all keys run out, and the pruner come by.
func (b *bench) expire() {
	b.t.Helper()
	b.unguarded("UPDATE idempotency_keys SET expires_at = clock_timestamp() WHERE status <> 'expired'")
	if _, err := b.keys.Expire(b.t.Context(), 1000); err != nil {
		b.t.Fatal(err)
	}
}

func answer(body string) Response {
	return Response{Status: 201, ContentType: "application/json", Location: "/things/1", SchemaVersion: 1,
		Body: []byte(body)}
}

// tryRolledBack runs a statement in a transaction that never commits.
func (b *bench) tryRolledBack(sql string, args ...any) error {
	b.t.Helper()
	return pgtest.TryRolledBack(b.t, b.pool, sql, args...)
}
