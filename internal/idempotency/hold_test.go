package idempotency

import (
	"testing"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// moved is the evidence of a dead letter by which money moved.
const moved = `{"record": {"status": "succeeded"}}`

// aDeadLetter is a dead letter about the test's key, whatever it stands for.
func (b *bench) aDeadLetter(generation int32) deadletters.DeadLetter {
	id := uuid.New()
	return deadletters.DeadLetter{
		ID: id, Kind: deadletters.PSPContradicts, Finding: id.String(), Reason: "test", Evidence: []byte(`{}`),
		About: &deadletters.About{Tenant: b.ref.Tenant, Operation: string(b.ref.Operation), Key: b.ref.Key.String(),
			Generation: generation},
	}
}

// opening are the calls by which everybody opens a dead letter: the key's row is locked first.
func (b *bench) opening(l deadletters.DeadLetter) []postgres.Call {
	return []postgres.Call{b.keys.LockKey(b.ref, 1), deadletters.Open(l)}
}

// deadLetter opens a dead letter about the test's key.
func (b *bench) deadLetter(generation int32) deadletters.DeadLetter {
	b.t.Helper()
	l := b.aDeadLetter(generation)
	b.send(b.opening(l)...)
	return l
}

// deadLetterSaying opens one about the first generation, with evidence.
func (b *bench) deadLetterSaying(evidence string) deadletters.DeadLetter {
	b.t.Helper()
	l := b.aDeadLetter(1)
	l.Evidence = []byte(evidence)
	b.send(b.opening(l)...)
	return l
}

func (b *bench) wantHold(want string) {
	b.t.Helper()
	got := pgtest.Value[string](b.t, b.pool, "SELECT dead_letter_hold FROM idempotency_keys")
	if got != want {
		b.t.Fatalf("held is %q, want %q", got, want)
	}
}

func refusal() Response {
	r := answer("declined")
	r.Status = 402
	return r
}

// A transaction that opens a dead letter locks the key's row. A step that waits for this lock is then compared with the
// changed row, and does not pass.
func TestDeadLetterThatIsOpenedWhileAStepWaitsHoldsTheKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	for name, c := range map[string]struct {
		from     Status
		evidence string
		step     func(Lease, *GuardResult) postgres.Call
	}{
		"an owner's release": {InProgressStatus, `{}`,
			func(l Lease, out *GuardResult) postgres.Call { return b.keys.Release(l, "never sent", false, out) }},
		"a release": {UnknownStatus, `{}`, func(l Lease, out *GuardResult) postgres.Call {
			b.loseLongAgo()
			return b.keys.ReleaseUnknown(l.Execution(), b.view().AskedAt, Proof{}, nothing(), out)
		}},
		"an owner's decline": {InProgressStatus, moved,
			func(l Lease, out *GuardResult) postgres.Call { return b.completing(l, true, refusal(), out) }},
		"a decline": {UnknownStatus, moved, func(l Lease, out *GuardResult) postgres.Call {
			return b.resolving(l.Execution(), UnknownStatus, true, found(), refusal(), out)
		}},
		"a late decline": {FailedRetryableStatus, moved, func(l Lease, out *GuardResult) postgres.Call {
			return b.resolving(l.Execution(), FailedRetryableStatus, true, found(), refusal(), out)
		}},
	} {
		lease := b.again().putInto(c.from)
		var out GuardResult
		step := c.step(lease, &out)
		deadLetter := b.aDeadLetter(1)
		deadLetter.Evidence = []byte(c.evidence)
		tx := b.open(ctx, b.opening(deadLetter)...)
		b.commits(ctx, tx, b.inBackground(ctx, step))
		if out.Passed {
			t.Errorf("%s has passed a dead letter that was opened while it waited", name)
		}
		b.wantStatus(c.from, 1, 1)
	}
}

// The pruner waits for nobody: it leaves a key alone about which a dead letter is being opened. A script that waits
// meets the guard.
func TestKeyDoesNotExpireWhileADeadLetterIsOpened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	b.putInto(CompletedStatus)
	b.outlive()
	tx := b.open(ctx, b.opening(b.aDeadLetter(1))...)
	b.wantExpired(0)
	script := b.inBackground(ctx,
		statement("UPDATE idempotency_keys SET status = 'expired', delete_after = clock_timestamp()"))
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.RefusedBy(t, <-script); got != "idempotency_keys_dead_lettered_stay" {
		t.Fatalf("refused by %q", got)
	}
	b.wantExpired(0)
	b.wantStatus(CompletedStatus, 1, 1)
}

// A dead letter comes to an expired key while a request renews it. It holds the generation that it is about, and no
// other.
func TestDeadLetterAndRenewalAtOnceLeaveTheNewGenerationFree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := b.patient()
	defer cancel()
	for name, opensFirst := range map[string]bool{"dead letter first": true, "renewal first": false} {
		b.again().putInto(ExpiredStatus)
		c := b.reservation()
		var d Decision
		opening, renewing := b.opening(b.aDeadLetter(1)),
			[]postgres.Call{b.keys.retake(c, is[Free](t, b.reserve(c)).snapshot, &d)}
		first, second := renewing, opening
		if opensFirst {
			first, second = opening, renewing
		}
		tx := b.open(ctx, first...)
		b.commits(ctx, tx, b.inBackground(ctx, second...))
		is[Execute](t, d)
		b.wantStatus(InProgressStatus, 1, 2)
		if n := b.count("SELECT count(*) FROM idempotency_keys WHERE dead_letter_hold = 'none'"); n != 1 {
			t.Errorf("%s: the new generation is held", name)
		}
	}
}

// The dead letter may come after a request has read the key. The statement finds no row then, and the guard stops a
// script.
func TestKeyWhoseMoneyHasMovedIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range []Status{FailedRetryableStatus, ExpiredStatus} {
		b.again().putInto(status)
		b.deadLetterSaying(moved)
		if d := b.retake(b.reservation(), Free{snapshot{KeyRow: b.row()}}); d != nil {
			t.Errorf("%s: executed again: %T", status, d)
		}
		err := b.tryRolledBack(move(map[string]string{
			"dead_letter_hold": "CASE status WHEN 'expired' THEN 'none' ELSE dead_letter_hold END",
		}), string(InProgressStatus))
		if got := pgtest.RefusedBy(t, err); got != "idempotency_keys_dead_lettered_stay" {
			t.Errorf("%s: refused by %q", status, got)
		}
	}
}

func TestHoldChangesAloneAndInAnyStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range statuses() {
		b.again().putInto(status)
		raise := "UPDATE idempotency_keys SET dead_letter_hold = 'decline'"
		if got := pgtest.RefusedBy(t, b.tryRolledBack(raise)); got != "" {
			t.Errorf("%s: refused by %q", status, got)
		}
		for _, also := range []string{"lease_id = gen_random_uuid()", "expires_at = expires_at + interval '1 hour'",
			"lookup_failures = 7", "response_body = 'x'"} {
			err := b.tryRolledBack("UPDATE idempotency_keys SET dead_letter_hold = 'decline', " + also)
			if got := pgtest.RefusedBy(t, err); got != "idempotency_keys_hold_changes_alone" {
				t.Errorf("%s, with %s: refused by %q", status, also, got)
			}
		}
	}
	for _, e := range Edges() {
		if e.From == "" || e.To == "" {
			continue
		}
		b.again().putInto(e.From)
		changes := map[string]string{"dead_letter_hold": "'release'"}
		if got := pgtest.RefusedBy(t, b.tryRolledBack(move(changes),
			string(e.To))); got != "idempotency_keys_hold_changes_alone" {
			t.Errorf("%s to %s, held by the way: refused by %q", e.From, e.To, got)
		}
		b.deadLetter(1)
		changes["dead_letter_hold"] = "'none'"
		got := pgtest.RefusedBy(t, b.tryRolledBack(move(changes), string(e.To)))
		want := "idempotency_keys_hold_changes_alone"
		if e.From == ExpiredStatus {
			want = "" // a new generation
		}
		if got != want {
			t.Errorf("%s to %s, freed by the way: refused by %q, want %q", e.From, e.To, got, want)
		}
	}
	b.again().putInto(ExpiredStatus)
	b.deadLetter(1)
	if got := pgtest.RefusedBy(t, b.tryRolledBack(move(nil),
		string(InProgressStatus))); got != "idempotency_keys_hold_changes_alone" {
		t.Errorf("a new generation that is held: refused by %q", got)
	}
}
