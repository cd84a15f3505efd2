package idempotency

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writes are the ways for an owner to end, each with the status that it ends in.
func writes() map[string]struct {
	do func(*bench, Lease) bool
	to Status
} {
	type write = struct {
		do func(*bench, Lease) bool
		to Status
	}
	return map[string]write{
		"complete":      {func(b *bench, l Lease) bool { return b.complete(l, answer("done")) }, CompletedStatus},
		"release":       {(*bench).release, FailedRetryableStatus},
		"lose":          {(*bench).lose, UnknownStatus},
		"complete lost": {func(b *bench, l Lease) bool { return b.completeLost(l, answer("done")) }, CompletedStatus},
	}
}

// from is where a write's key must be.
func from(write string) Status {
	if write == "complete lost" {
		return UnknownStatus
	}
	return InProgressStatus
}

// Each write of an owner is tried on a key in each status: it wins from its own, and leaves every other as it was.
func TestOwnersWritesStartFromTheirOwnStatusAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, write := range writes() {
		for _, status := range statuses() {
			lease := b.again().putInto(status)
			before, events := b.row(), len(b.events())
			won := write.do(b, lease)
			if status == from(name) {
				if !won || b.row().Status != write.to {
					t.Errorf("%s of %s: won is %t, key is %s", name, status, won, b.row().Status)
				}
				continue
			}
			if diff := cmp.Diff(before, b.row(), cmp.Comparer(sameKey)); won || diff != "" ||
				len(b.events()) != events {
				t.Errorf("%s of %s: won is %t, and a write that lost has written:\n%s", name, status, won, diff)
			}
		}
	}
}

func TestLateLeaseCannotComplete(t *testing.T) {
	t.Parallel()
	for name := range writes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantFenced(t, name)
		})
	}
}

// wantFenced has owners of an earlier attempt, of an earlier generation, of the same key of another tenant or for
// another operation, and of another key write to a key that is in the right status but in its owner's hands.
func wantFenced(t *testing.T, name string) {
	t.Helper()
	b := setup(t)
	b.release(b.own())
	c := b.reservation()
	owner := is[Execute](t, b.retake(c, is[Free](t, b.reserve(c)))).Lease
	b.complete(owner, answer("first generation"))
	b.expire()
	c = b.reservation()
	owner = is[Execute](t, b.retake(c, is[Free](t, b.reserve(c)))).Lease
	b.release(owner)
	c = b.reservation()
	owner = is[Execute](t, b.retake(c, is[Free](t, b.reserve(c)))).Lease
	if from(name) == UnknownStatus {
		b.lose(owner)
	}
	b.wantStatus(from(name), 2, 2)
	before, events := b.row(), len(b.events())

	for who, change := range map[string]func(*Lease){
		"an earlier attempt":    func(l *Lease) { l.Attempt = 1 },
		"an earlier generation": func(l *Lease) { l.Generation = 1 },
		"another tenant":        func(l *Lease) { l.Ref.Tenant = "globex" },
		"another operation":     func(l *Lease) { l.Ref.Operation = "POST /payments/{id}/refunds" },
		"another key":           func(l *Lease) { l.Ref = refOf(t, "acme", "order-0000000043") },
	} {
		late := owner
		change(&late)
		if writes()[name].do(b, late) {
			t.Fatalf("%s got through", who)
		}
		if diff := cmp.Diff(before, b.row(), cmp.Comparer(sameKey)); diff != "" || len(b.events()) != events {
			t.Fatalf("%s has written:\n%s", who, diff)
		}
	}
	if !writes()[name].do(b, owner) {
		t.Fatal("the owner itself was fenced off")
	}
}

// The lease may be over: an answer in hand is better than none, as long as nobody has acted on its end.
func TestOwnerOfAnOverdueLeaseCompletesUntilSomebodyActs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, write := range writes() {
		if from(name) != InProgressStatus {
			continue
		}
		lease := b.again().own()
		b.endLease()
		if !write.do(b, lease) || b.row().Status != write.to {
			t.Fatalf("%s: the overdue owner was fenced off; key is %s", name, b.row().Status)
		}
	}
}

func TestLateOwnersSuccessCompletesAnUnknownKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	b.endLease()
	b.expireLease(isOver(t, b.reserve(b.reservation())))
	late := answer("late")
	if !b.completeLost(lease, late) {
		t.Fatal("the late owner could not complete")
	}
	if diff := cmp.Diff(late, is[Replay](t, b.reserve(b.reservation())).Response); diff != "" {
		t.Fatalf("replay differs:\n%s", diff)
	}
	b.wantTimeline("request in_progress>unknown 1/1 lease over", "owner unknown>completed 1/1 late success")
	if n := b.count("SELECT count(*) FROM idempotency_keys WHERE reconcile_after IS NULL AND finished_at IS NOT NULL"); n != 1 {
		t.Fatal("a completed key is still waiting to be resolved")
	}
}

func TestLostKeyTellsWhyAndWakesTheReconciler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lose(b.own())
	b.wantTimeline("owner in_progress>unknown 1/1 no answer")
	if e := b.events()[0]; string(e.Evidence) != `{"status": 500}` || e.At.Time().IsZero() {
		t.Fatalf("event is %+v", e)
	}
	wait := b.count("SELECT extract(epoch FROM reconcile_after - unknown_since)::int FROM idempotency_keys WHERE lookup_failures = 0")
	if want := int(testTerms().FirstLookup.Seconds()); wait != want {
		t.Fatalf("the PSP is asked after %d s, want %d: a webhook may come first", wait, want)
	}
}

func TestLostKeyNeedsNoEvidence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	var out GuardResult
	b.send(b.keys.Lose(lease, "no answer", nil, false, &out))
	if !out.Passed || b.events()[0].Evidence != nil {
		t.Fatalf("through is %t, timeline %+v", out.Passed, b.events())
	}
}
