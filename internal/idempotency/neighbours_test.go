package idempotency

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/test/pgtest"
)

// A key's name has three parts. Neighbours are keys that differ from the test's key in one of them, and are equal in
// all else. They come first in every order, so a statement that forgets a part of the name meets a neighbour.
func (b *bench) neighbours() map[string]Ref {
	operation := b.ref
	operation.Operation = "DELETE /payments"
	return map[string]Ref{
		"tenant": refOf(b.t, "a-neighbour", b.ref.Key.String()), "operation": operation,
		"key": refOf(b.t, b.ref.Tenant, "an-order-0000000042"),
	}
}

// amidNeighbours puts the test's key and its neighbours into a status.
func (b *bench) amidNeighbours(status Status) Lease {
	b.t.Helper()
	mine := b.ref
	for _, b.ref = range b.neighbours() {
		b.putInto(status)
	}
	b.ref = mine
	return b.putInto(status)
}

// alike gives the neighbours the subject and the time of the next lookup that the test's key has. Then only the names
// differ.
func (b *bench) alike() {
	b.t.Helper()
	b.unguarded(`UPDATE idempotency_keys AS k SET subject = m.subject, reconcile_after = m.reconcile_after
		FROM idempotency_keys AS m WHERE (m.tenant_id, m.operation, m.key) = ($1, $2, $3)`,
		b.ref.Tenant, string(b.ref.Operation), b.ref.Key.String())
}

// others is all that there is of other keys than the test's.
func (b *bench) others() string {
	b.t.Helper()
	return pgtest.Value[string](b.t, b.pool, `SELECT concat(
			(SELECT jsonb_agg(k ORDER BY k.tenant_id, k.operation, k.key) FROM idempotency_keys AS k
				WHERE (k.tenant_id, k.operation, k.key) <> ($1, $2, $3)),
			(SELECT jsonb_agg(e ORDER BY e.id) FROM idempotency_key_events AS e
				WHERE (e.tenant_id, e.operation, e.key) <> ($1, $2, $3)))`,
		b.ref.Tenant, string(b.ref.Operation), b.ref.Key.String())
}

func TestStepMovesNoNeighbour(t *testing.T) {
	t.Parallel()
	shared := setup(t)
	for name, c := range map[string]struct {
		from, to Status
		step     func(b *bench, l Lease)
	}{
		"complete": {InProgressStatus, CompletedStatus, func(b *bench, l Lease) { b.complete(l, answer("done")) }},
		"release":  {InProgressStatus, FailedRetryableStatus, func(b *bench, l Lease) { b.release(l) }},
		"lose":     {InProgressStatus, UnknownStatus, func(b *bench, l Lease) { b.lose(l) }},
		"expire lease": {InProgressStatus, UnknownStatus, func(b *bench, _ Lease) {
			b.expireLease(isOver(b.t, b.reserve(b.reservation())))
		}},
		"retake": {FailedRetryableStatus, InProgressStatus, func(b *bench, _ Lease) {
			c := b.reservation()
			b.retake(c, is[Free](b.t, b.reserve(c)))
		}},
		"renew": {ExpiredStatus, InProgressStatus, func(b *bench, _ Lease) {
			c := b.reservation()
			b.retake(c, is[Free](b.t, b.reserve(c)))
		}},
		"resolve": {UnknownStatus, CompletedStatus, func(b *bench, l Lease) {
			b.resolve(l.Execution(), UnknownStatus)
		}},
		"release unknown": {UnknownStatus, FailedRetryableStatus, func(b *bench, _ Lease) {
			b.releaseCancelled(b.view())
		}},
		"postpone": {UnknownStatus, UnknownStatus, func(b *bench, l Lease) { b.postpone(l.Execution(), time.Hour, 1) }},
		"note": {UnknownStatus, UnknownStatus, func(b *bench, l Lease) {
			b.send(b.keys.Note(l.Execution(), found()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := *shared
			b.t = t
			lease := b.again().amidNeighbours(c.from)
			b.alike()
			if c.from == InProgressStatus && c.to == UnknownStatus {
				b.endLease() // of all of them
			}
			before, events := b.others(), len(b.events())
			c.step(&b, lease)
			if got := b.row().Status; got != c.to {
				t.Errorf("the key is %s", got)
			}
			if n := len(b.events()) - events; n > 1 {
				t.Errorf("%d lines were written to the key's timeline", n)
			}
			if diff := cmp.Diff(before, b.others()); diff != "" {
				t.Errorf("neighbours differ:\n%s", diff)
			}
		})
	}
}

func TestReadFindsNoNeighbour(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.amidNeighbours(UnknownStatus)
	b.send(b.keys.Note(lease.Execution(), found()))
	mine := lease.Subject
	r, err := b.keys.Find(t.Context(), b.ref)
	if err != nil || r.Subject != mine {
		t.Errorf("Find: %+v, %v", r, err)
	}
	if r, err = b.keys.FindDurably(t.Context(), b.ref); err != nil || r.Subject != mine {
		t.Errorf("FindDurably: %+v, %v", r, err)
	}
	if v := b.view(); v.Execution.Subject != mine {
		t.Errorf("LookIn: %+v", v)
	}
	if n := len(b.events()); n != 2 {
		t.Errorf("Events: %d lines, want 2", n)
	}
	b.again().amidNeighbours(InProgressStatus)
	b.unguarded("DELETE FROM idempotency_keys WHERE subject = $1", b.row().Subject)
	if got, err := b.keys.Undecided(t.Context(), []Ref{b.ref}); err != nil || len(got) != 0 {
		t.Errorf("Undecided, without the key: %v, %v", got, err)
	}
	for status, want := range map[Status]int{
		InProgressStatus: 1, UnknownStatus: 1, CompletedStatus: 0, FailedRetryableStatus: 0, ExpiredStatus: 0,
	} {
		b.again().putInto(status)
		if got, err := b.keys.Undecided(t.Context(), []Ref{b.ref}); err != nil || len(got) != want {
			t.Errorf("Undecided, when it is %s: %v, %v", status, got, err)
		}
	}
}

// Several keys are reserved by one statement. Each gets the generation after its own tombstone, and a key that is there
// keeps no other from being reserved.
func TestKeysThatAreReservedTogetherAreKeptApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine := b.ref
	for part, neighbour := range b.neighbours() {
		b.again()
		for tombstones, ref := range []Ref{neighbour, mine} {
			for range tombstones + 1 {
				b.ref = ref
				b.putInto(ExpiredStatus)
				b.outlive()
				b.wantDeleted(1)
			}
		}
		b.reserveBoth(part+" with tombstones", mine, neighbour, 3, 2)

		b.again()
		b.ref = neighbour
		b.putInto(InProgressStatus)
		b.ref = mine
		var decisions []Decision
		b.send(b.keys.reserve(tries(b.both(mine, neighbour)...), &decisions))
		if is[Execute](t, decisions[0]).Lease.Generation != 1 {
			t.Errorf("%s: decision is %+v", part, decisions[0])
		}
		is[InProgress](t, decisions[1])
	}
}

// both are reservations of two keys, for one statement.
func (b *bench) both(one, other Ref) []Reservation {
	var all []Reservation
	for _, ref := range []Ref{one, other} {
		all = append(all, b.keys.NewReservation(ref, asked("apple"), uuid.New(), uuid.New()))
	}
	return all
}

func (b *bench) reserveBoth(what string, one, other Ref, generations ...int32) {
	b.t.Helper()
	var decisions []Decision
	b.send(b.keys.reserve(tries(b.both(one, other)...), &decisions))
	for i, d := range decisions {
		if got := is[Execute](b.t, d).Lease.Generation; got != generations[i] {
			b.t.Errorf("%s: key %d has generation %d, want %d", what, i, got, generations[i])
		}
	}
}

// Evidence that money has moved completes the key, also if a dead letter says the same. Only a decline must wait.
func TestSuccessPassesADeadLetterThatSaysCharged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.putInto(UnknownStatus).Execution()
	b.unguarded("UPDATE idempotency_keys SET dead_letter_hold = 'decline'")
	var declined, succeeded GuardResult
	b.send(b.resolving(e, UnknownStatus, true, found(), answer("declined"), &declined))
	b.send(b.resolving(e, UnknownStatus, false, found(), answer("succeeded"), &succeeded))
	if declined.Passed || !succeeded.Passed {
		t.Errorf("declined %+v, succeeded %+v", declined, succeeded)
	}
}

// A dead letter keeps its own key from being deleted, and no neighbour.
func TestDeadLetterKeepsNoNeighbour(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine := b.ref
	b.putInto(ExpiredStatus)
	for _, b.ref = range b.neighbours() {
		b.deadLetter(1)
	}
	b.ref = mine
	b.outlive()
	b.wantDeleted(1)
}

func TestLockOfAKeyHoldsUpNoNeighbour(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.amidNeighbours(UnknownStatus)
	tx := b.open(t.Context(), b.keys.LockKey(b.ref, 1))
	free := column[string](b, "SELECT concat_ws(' ', tenant_id, operation, key) FROM idempotency_keys ORDER BY 1 FOR UPDATE SKIP LOCKED")
	if len(free) != 3 || slices.Contains(free, "acme POST /payments order-0000000042") {
		t.Errorf("not locked are %v", free)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// While an operator has the case, a line that says the same again is left out. What was said last of a neighbour does
// not count.
func TestLineOfANeighbourIsNotTheLastLine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.amidNeighbours(UnknownStatus)
	mine := b.ref
	for _, b.ref = range b.neighbours() {
		b.postpone(Execution{Ref: b.ref, Subject: b.row().Subject, Attempt: 1, Generation: 1}, time.Hour, 1)
	}
	b.ref = mine
	b.unguarded("UPDATE idempotency_keys SET dead_letter_hold = 'release'")
	for range 2 {
		b.postpone(lease.Execution(), time.Hour, 1)
	}
	b.wantTimeline("owner in_progress>unknown 1/1 no answer", "lookup unknown>unknown 1/1 the PSP did not answer")
}

// Of two that have seen the same time of the next lookup, only one sets it.
func TestOnlyOneOfTwoPostponesALookup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.putInto(UnknownStatus).Execution()
	seen := b.view().Due
	var first, second GuardResult
	b.send(b.keys.Postpone(e, seen, time.Hour, 1, nothing(), &first))
	b.send(b.keys.Postpone(e, seen, 0, 2, nothing(), &second))
	if !first.Passed || second.Passed || b.view().LookupFailures != 1 {
		t.Errorf("first %+v, second %+v, key %+v", first, second, b.view())
	}
}

// A search finds what is due and nobody holds, in the statuses of its walk alone: what it finds in vain is searched for
// again and again.
func TestSearchFindsOnlyWhatItsWalkCanTake(t *testing.T) {
	t.Parallel()
	eachWalk(t, func(b *bench, w walk) {
		changes := map[string]int{
			w.column + " = clock_timestamp() + interval '1 hour'": 0,
			w.column + " = clock_timestamp()":                     5,
		}
		if w.held {
			changes[w.column+" = clock_timestamp(), dead_letter_hold = 'expiry'"] = 0
		}
		for change, want := range changes {
			b.unguarded("UPDATE idempotency_keys SET dead_letter_hold = 'none'")
			b.unguarded("UPDATE idempotency_keys SET " + change)
			if got := w.found(b); got != want {
				b.t.Errorf("with %s, %d are found, want %d", change, got, want)
			}
		}
		for _, status := range statuses() {
			if status == w.from || w.from == CompletedStatus && status == FailedRetryableStatus {
				continue
			}
			b.again().putInto(status)
			b.unguarded("UPDATE idempotency_keys SET expires_at = clock_timestamp()")
			if got := w.found(b); got != 0 {
				b.t.Errorf("a key is found that is %s", status)
			}
			before := b.frozen()
			if err := w.statement(b.t.Context(), dbsqlc.New(b.pool), b.ref.Tenant, []string{string(b.ref.Operation)},
				[]string{b.ref.Key.String()}); err != nil || b.frozen() != before {
				b.t.Errorf("a key is taken that is %s: %v", status, err)
			}
		}
	})
}

// found is how many keys the walk's search finds.
func (w walk) found(b *bench) int {
	b.t.Helper()
	keys, err := dueKeys(dbsqlc.New(b.pool), w.search)(b.t.Context(), 100)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(keys)
}

// What a walk has locked, another tenant's request would wait for.
func TestWalkLocksNoNeighbour(t *testing.T) {
	t.Parallel()
	shared := setup(t)
	for name, w := range walks() {
		t.Run(name, func(t *testing.T) {
			b := *shared
			b.t = t
			b.again().amidNeighbours(w.from)
			b.unguarded("UPDATE idempotency_keys SET " + w.column + " = clock_timestamp() - interval '1 hour'")
			ctx, cancel := b.patient()
			defer cancel()
			tx := b.open(ctx)
			err := w.statement(ctx, dbsqlc.New(tx), b.ref.Tenant, []string{string(b.ref.Operation)},
				[]string{b.ref.Key.String()})
			if err != nil {
				t.Fatal(err)
			}
			free := b.count("SELECT count(*) FROM (SELECT FROM idempotency_keys FOR UPDATE SKIP LOCKED) AS free")
			if want := len(b.neighbours()); free != want {
				t.Errorf("%d keys are free, want %d", free, want)
			}
			if err := tx.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
}
