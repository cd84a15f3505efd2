package idempotency

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// found is a note with something in each of its members.
func found() Note {
	return Note{Actor: "lookup", Reason: "the ledger has it", Evidence: []byte(`{"id":"ch_1"}`)}
}

func (b *bench) resolve(e Execution, seen Status) (out GuardResult) {
	b.t.Helper()
	b.send(b.resolving(e, seen, false, found(), answer("resolved"), &out))
	return out
}

// unchanged checks that a statement which did not pass has written nothing.
func (b *bench) unchanged(what string, passed GuardResult, before KeyRow, events int) {
	b.t.Helper()
	if passed != (GuardResult{}) {
		b.t.Errorf("%s: got through, %+v", what, passed)
	}
	if diff := cmp.Diff(before, b.row(), cmp.Comparer(sameKey)); diff != "" || len(b.events()) != events {
		b.t.Errorf("%s: a statement that did not pass has written:\n%s", what, diff)
	}
}

// completable are the statuses in which evidence completes a key.
func completable() []Status {
	return []Status{InProgressStatus, UnknownStatus, FailedRetryableStatus}
}

func TestEvidenceCompletesAnOpenOrReleasedKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range completable() {
		lease := b.again().putInto(status)
		before := len(b.events())
		passed := b.resolve(lease.Execution(), status)
		if r := b.row(); !passed.Passed || !passed.Expires.Equal(r.Expires) || r.Finished == nil ||
			r.LockedUntil != nil {
			t.Fatalf("%s: result is %+v, row %+v", status, passed, r)
		}
		b.wantStatus(CompletedStatus, 1, 1)
		if diff := cmp.Diff(answer("resolved"), is[Replay](t, b.reserve(b.reservation())).Response); diff != "" {
			t.Fatalf("%s: replay differs:\n%s", status, diff)
		}
		events := b.events()[before:]
		want := []Event{{
			Actor: "lookup", From: status, To: CompletedStatus, Attempt: 1, Generation: 1,
			Reason: "the ledger has it", Evidence: []byte(`{"id": "ch_1"}`),
		}}
		if diff := cmp.Diff(want, events, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".At" },
			cmp.Ignore())); diff != "" {
			t.Fatalf("%s: timeline differs:\n%s", status, diff)
		}
	}
}

// Each status is resolved as if it had been seen in each other one: only what was truly seen is moved.
func TestEvidenceMovesAKeyOnlyFromWhereItWasSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		lease := b.again().putInto(status)
		before, events := b.row(), len(b.events())
		for _, seen := range statuses() {
			if seen == status && status != CompletedStatus && status != ExpiredStatus {
				continue
			}
			b.unchanged(string(status)+" seen as "+string(seen), b.resolve(lease.Execution(), seen), before, events)
		}
	}
}

// elsewhere are executions that are not this one, each by one thing.
func elsewhere(t *testing.T, e Execution) map[string]Execution {
	t.Helper()
	change := func(f func(*Execution)) Execution {
		other := e
		f(&other)
		return other
	}
	return map[string]Execution{
		"another subject":      change(func(e *Execution) { e.Subject = uuid.New() }),
		"a later attempt":      change(func(e *Execution) { e.Attempt++ }),
		"an earlier attempt":   change(func(e *Execution) { e.Attempt-- }),
		"a later generation":   change(func(e *Execution) { e.Generation++ }),
		"an earlier one":       change(func(e *Execution) { e.Generation-- }),
		"another key":          change(func(e *Execution) { e.Ref = refOf(t, "acme", "order-0000000043") }),
		"another tenant's key": change(func(e *Execution) { e.Ref = refOf(t, "globex", "order-0000000042") }),
	}
}

func TestEvidenceOfAnotherExecutionMovesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range completable() {
		lease := b.again().putInto(status)
		before, events := b.row(), len(b.events())
		for what, e := range elsewhere(t, lease.Execution()) {
			b.unchanged(string(status)+", "+what, b.resolve(e, status), before, events)
		}
	}
}

// inBackground sends queued statements while another transaction is in their way.
func (b *bench) inBackground(ctx context.Context, calls ...postgres.Call) <-chan error {
	b.t.Helper()
	done := make(chan error, 1)
	go func() { done <- b.db.Pipeline(ctx, calls...) }()
	pgtest.AwaitLock(b.t, b.pool)
	return done
}

// open begins a transaction that the test ends by itself, and runs calls in it.
func (b *bench) open(ctx context.Context, calls ...postgres.Call) pgx.Tx {
	b.t.Helper()
	tx := pgtest.Begin(b.t, b.pool)
	if err := postgres.PipelineTx(ctx, tx, calls...); err != nil {
		b.t.Fatal(err)
	}
	return tx
}

// commits ends the transaction that was in the way, and waits for the one behind it.
func (b *bench) commits(ctx context.Context, tx pgx.Tx, behind <-chan error) {
	b.t.Helper()
	if err := tx.Commit(ctx); err != nil {
		b.t.Fatal(err)
	}
	if err := <-behind; err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.t.Context(), patience)
}

// A webhook and a lookup bring the same evidence at once: the second waits for the first, and then has nothing to do.
func TestOneOfTwoWritersPasses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	for _, status := range completable() {
		e := b.again().putInto(status).Execution()
		events := len(b.events())
		var first, second GuardResult
		tx := b.open(ctx, b.resolving(e, status, false, found(), answer("first"), &first))
		behind := b.inBackground(ctx, b.resolving(e, status, false, found(), answer("second"), &second))
		b.commits(ctx, tx, behind)
		if !first.Passed || second.Passed {
			t.Fatalf("%s: first is %+v, second %+v", status, first, second)
		}
		if r := b.row(); string(r.Response.Body) != "first" || len(b.events()) != events+1 {
			t.Fatalf("%s: stored is %s, timeline %+v", status, r.Response.Body, b.events())
		}
	}
}

// The trap: a key stays unknown for longer than its retention. Expired as soon as it is resolved, it would be free for
// the client's next retry, as a new generation that the PSP charges once more.
func TestKeyResolvedAfterItsExpiryIsNotFreeForASecondCharge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	resolve := func(l Lease, seen Status) GuardResult { return b.resolve(l.Execution(), seen) }
	release := func(Lease, Status) GuardResult { return b.releaseUnknown(b.view()) }
	for _, c := range []struct {
		name    string
		from    Status
		resolve func(Lease, Status) GuardResult
	}{
		{"executed", InProgressStatus, resolve},
		{"executed", UnknownStatus, resolve},
		{"executed", FailedRetryableStatus, resolve},
		{"not executed", UnknownStatus, release},
	} {
		lease := b.again().putInto(c.from)
		b.loseLongAgo()
		b.unguarded("UPDATE idempotency_keys SET expires_at = clock_timestamp() - interval '1 hour'")
		if !c.resolve(lease, c.from).Passed {
			t.Fatalf("%s, %s: did not pass", c.name, c.from)
		}
		kept := b.count("SELECT extract(epoch FROM expires_at - finished_at)::int FROM idempotency_keys")
		if want := int(testTerms().Retention.Seconds()); kept != want {
			t.Fatalf("%s, %s: kept for %d s more, want a whole retention", c.name, c.from, kept)
		}
		if n, err := b.keys.Expire(t.Context(), 10); n != 0 || err != nil {
			t.Fatalf("%s, %s: the pruner took %d at once, %v", c.name, c.from, n, err)
		}
		if again, free := b.reserve(b.reservation()).(Free); free && again.Status == ExpiredStatus {
			t.Fatalf("%s, %s: the next retry is a second operation", c.name, c.from)
		}
	}
}

func TestResolvingDoesNotShortenALongerExpiry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, resolve := range map[string]func(Lease) GuardResult{
		"executed":     func(l Lease) GuardResult { return b.resolve(l.Execution(), UnknownStatus) },
		"not executed": func(Lease) GuardResult { return b.releaseUnknown(b.view()) },
	} {
		lease := b.again().putInto(UnknownStatus)
		b.loseLongAgo()
		b.unguarded("UPDATE idempotency_keys SET expires_at = clock_timestamp() + interval '90 days'")
		before := b.row().Expires
		if passed := resolve(lease); !passed.Passed || !passed.Expires.Equal(before) {
			t.Errorf("%s: result is %+v; the key was to be kept until %s", name, passed, before)
		}
	}
}

// A GuardResult must not keep what an earlier try has left in it.
func TestGuardResultIsResetByEachTry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.putInto(CompletedStatus)
	for name, call := range map[string]func(*GuardResult) postgres.Call{
		"resolve": func(out *GuardResult) postgres.Call {
			return b.resolving(lease.Execution(), UnknownStatus, false, found(), answer("again"), out)
		},
		"release":  func(out *GuardResult) postgres.Call { return b.keys.Release(lease, "late", false, out) },
		"complete": func(out *GuardResult) postgres.Call { return b.completing(lease, false, answer("again"), out) },
	} {
		out := GuardResult{Passed: true, Expires: time.Unix(1, 0)}
		b.send(call(&out))
		if out != (GuardResult{}) {
			t.Errorf("%s: a statement that did not pass leaves %+v", name, out)
		}
	}
}
