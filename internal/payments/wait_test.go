package payments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// lookedAt is what a look sees: the keys that are undecided, and whether each is in flight; or that the database is
// away.
type lookedAt struct {
	mu    sync.Mutex
	seen  map[idempotency.Ref]bool
	away  error
	looks int
	asked []int // keys in each look
}

func (b *lookedAt) look(_ context.Context, refs []idempotency.Ref) (map[idempotency.Ref]bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	b.asked = append(b.asked, len(refs))
	return maps.Clone(b.seen), b.away
}

// becomes is what the next looks see.
func (b *lookedAt) becomes(away error, seen map[idempotency.Ref]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.seen = away, seen
}

// keysSeen are keys that are undecided.
func keysSeen(inFlight bool, refs ...idempotency.Ref) map[idempotency.Ref]bool {
	seen := map[idempotency.Ref]bool{}
	for _, ref := range refs {
		seen[ref] = inFlight
	}
	return seen
}

func numbered(n int) idempotency.Ref {
	return idempotency.StoredRef("acme", "POST /payments", fmt.Sprintf("order-%010d", n))
}

// member is a request that waits for a key.
type member struct {
	*Member[bool]

	waits *waits
}

// waitsFor joins a key and waits.
func waitsFor(t *testing.T, w *waits, ref idempotency.Ref, what until) *member {
	t.Helper()
	m := &member{w.keys.Join(ref), w}
	if !w.enter(ref.Tenant) {
		t.Fatal("it may not wait")
	}
	m.Wait(what.over)
	return m
}

func (m *member) leave() {
	m.Leave()
	m.waits.leave(m.ref.Tenant)
}

func woken(m interface{ Changed() <-chan struct{} }) bool {
	select {
	case <-m.Changed():
		return true
	default:
		return false
	}
}

// passes lets so many looks happen.
func passes(looks int) {
	<-time.NewTimer(time.Duration(looks)*lookInterval + lookInterval/2).C
	synctest.Wait()
}

// nobodyLeft checks that nothing is left of requests that have come and gone.
func nobodyLeft(t *testing.T, w *waits) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys.mu.Lock()
	defer w.keys.mu.Unlock()
	if len(w.keys.keys) != 0 || w.waiting != 0 || len(w.tenants) != 0 || w.keys.looking {
		t.Fatalf("%d keys and %d requests of %v are left, and it looks: %v", len(w.keys.keys), w.waiting, w.tenants,
			w.keys.looking)
	}
}

// A request that leaves takes nothing from those who stay: a change wakes them, and their places are counted.
func TestRequestThatLeavesLeavesTheOthersWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits((&lookedAt{seen: keysSeen(true, numbered(1))}).look)
		leaves, stays := waitsFor(t, w, numbered(1), executionEnd), waitsFor(t, w, numbered(1), executionEnd)
		leaves.leave()
		if w.tenants["acme"] != 1 || w.waiting != 1 {
			t.Errorf("%v are counted, %d in all", w.tenants, w.waiting)
		}
		if w.keys.Wake(numbered(1)); !woken(stays) {
			t.Error("a change does not wake who stays")
		}
		stays.leave()
		passes(1)
		nobodyLeft(t, w)
	})
}

func TestOneLookIsForAllWhoWaitAndThereIsNoneForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := numbered(1), numbered(2)
		b := &lookedAt{seen: keysSeen(true, one, two)}
		w := newWaits(b.look)
		joined := w.keys.Join(numbered(3)) // It has joined and does not wait, so nobody looks for it.
		passes(3)
		if b.looks != 0 {
			t.Fatalf("%d looks for a request that does not wait", b.looks)
		}
		all := []*member{nil}
		for _, ref := range []idempotency.Ref{one, one, one, two} {
			all = append(all, waitsFor(t, w, ref, executionEnd))
		}
		passes(3)
		if b.looks != 3 || b.asked[0] != 2 || b.asked[2] != 2 || woken(joined) {
			t.Fatalf("%d looks, at %v keys", b.looks, b.asked)
		}
		b.becomes(errors.New("away"), nil)
		passes(1)
		if woken(all[1]) {
			t.Fatal("a look that failed tells an end")
		}
		b.becomes(nil, keysSeen(true, two))
		passes(1)
		if !woken(all[1]) || !woken(all[3]) || woken(all[4]) {
			t.Fatal("the end of the first key is not told, or one of the second")
		}
		// It is executed once more, and waited for again, before all have left.
		b.becomes(nil, keysSeen(true, one, two))
		again := waitsFor(t, w, one, executionEnd)
		joined.Leave()
		for _, m := range all[1:4] {
			m.leave()
		}
		passes(1)
		if asked := b.asked[len(b.asked)-1]; woken(again) || asked != 2 {
			t.Fatalf("of the second wait: ended %v, %d keys looked at", woken(again), asked)
		}
		again.leave()
		all[4].leave()
		before := b.looks
		passes(5)
		if b.looks != before {
			t.Fatalf("%d looks for nobody", b.looks-before)
		}
		nobodyLeft(t, w)
	})
}

// A key has changed while it was read, and is waited for again. What was read is older than that.
func TestReadThatIsOlderThanTheWaitDoesNotEndIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w *waits
		var first, second *member
		w = newWaits(func(_ context.Context, refs []idempotency.Ref) (map[idempotency.Ref]bool, error) {
			if second != nil {
				return keysSeen(true, refs...), nil
			}
			w.keys.Wake(numbered(1))
			second = waitsFor(t, w, numbered(1), outcome)
			return nil, nil
		})
		first = waitsFor(t, w, numbered(1), outcome)
		passes(2)
		if !woken(first) || woken(second) {
			t.Fatalf("woken: the first %v, the second %v", woken(first), woken(second))
		}
		first.leave()
		second.leave()
		passes(1)
		nobodyLeft(t, w)
	})
}

// The execution has ended, and its outcome is unknown. That ends the wait for the execution only.
func TestWaitForTheOutcomeOutlastsTheExecution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost, executed := numbered(1), numbered(2)
		b := &lookedAt{seen: keysSeen(true, lost, executed)}
		w := newWaits(b.look)
		end, ends := waitsFor(t, w, executed, executionEnd), waitsFor(t, w, lost, outcome)
		b.becomes(nil, keysSeen(false, lost, executed))
		passes(2)
		if !woken(end) || woken(ends) {
			t.Fatalf("unknown: the wait for the end is over: %v, for the outcome: %v", woken(end), woken(ends))
		}
		b.becomes(nil, nil)
		passes(1)
		if !woken(ends) {
			t.Fatal("the outcome is not told")
		}
		end.leave()
		ends.leave()
		passes(2)
		nobodyLeft(t, w)
	})
}

func TestLookHasNoMoreKeysThanItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &lookedAt{}
		w := newWaits(b.look)
		var all []*member
		for i := range 2*keysInALook + 1 {
			all = append(all, waitsFor(t, w, numbered(i), outcome))
		}
		passes(1)
		if b.looks != 3 || b.asked[0] != keysInALook || b.asked[1] != keysInALook || b.asked[2] != 1 {
			t.Fatalf("%d looks, at %v keys", b.looks, b.asked)
		}
		for i, m := range all {
			if !woken(m) {
				t.Fatalf("request %d is not told", i)
			}
			m.leave()
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

// waited is how often await has asked, and its result.
type waited struct {
	asked  int
	waited bool
	took   time.Duration
	err    error
}

// awaits waits for a key that stays undecided, for a second at most.
func awaits(ctx context.Context, w *waits, asked func(times int)) waited {
	times, began := 0, time.Now()
	as, err := await(ctx, w, numbered(1), time.Second, func() (until, error) {
		times++
		asked(times)
		return outcome, nil
	})
	return waited{times, as, time.Since(began), err}
}

// undecidedForEver is a database that shows no change.
func undecidedForEver() *lookedAt { return &lookedAt{seen: keysSeen(true, numbered(1))} }

func TestCommitBetweenTheQuestionAndTheWaitWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		var second time.Duration
		began := time.Now()
		got := awaits(t.Context(), w, func(times int) {
			if times == 1 {
				w.keys.Wake(numbered(1)) // committed, after the question was answered
			} else {
				second = time.Since(began)
			}
		})
		if got != (waited{asked: 2, waited: true, took: time.Second}) || second != 0 {
			t.Fatalf("%+v, asked again after %s", got, second)
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

func TestWaitEndsAtItsLimitWithThePresentAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		if got := awaits(t.Context(), w, func(int) {}); got != (waited{asked: 1, waited: true, took: time.Second}) {
			t.Fatalf("%+v", got)
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

func TestClientThatLeavesEndsItsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		client, hangUp := context.WithCancel(t.Context())
		go func() {
			passes(1)
			hangUp()
		}()
		got := awaits(client, w, func(int) {})
		if !errors.Is(got.err, context.Canceled) || got.took >= 2*lookInterval {
			t.Fatalf("%+v", got)
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

// A request beyond the limit is answered at once, and waits when another one has left.
func TestOnlySoManyRequestsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		var all []*member
		for range MaxWaiting / 2 {
			all = append(all, waitsFor(t, w, numbered(1), outcome))
		}
		if got := awaits(t.Context(), w, func(int) {}); got != (waited{asked: 1}) {
			t.Fatalf("one too many: %+v", got)
		}
		all[0].leave()
		if got := awaits(t.Context(), w, func(int) {}); !got.waited || got.took != time.Second {
			t.Fatalf("there is room: %+v", got)
		}
		for _, m := range all[1:] {
			m.leave()
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

// However many requests of some tenants wait, a request of another tenant may wait, too.
func TestWaitsOfSomeTenantsKeepNoOtherFromWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		var all []*member
		for _, tenant := range []string{"acme", "globex", "initech", "hooli"} {
			ref, theirs := idempotency.StoredRef(tenant, "POST /payments", "order-0000000001"), 0
			for ; w.enter(tenant); theirs++ {
				all = append(all, &member{w.keys.Join(ref), w})
			}
			if theirs == 0 {
				t.Errorf("nobody of %s may wait", tenant)
			}
		}
		for _, m := range all {
			m.leave()
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

// A panic is answered as an internal error, and the process goes on. So it must leave nothing behind.
func TestPanicInTheQuestionLeavesNoWaitBehind(t *testing.T) {
	t.Parallel()
	w := newWaits(undecidedForEver().look)
	func() {
		defer func() { _ = recover() }()
		awaits(t.Context(), w, func(int) { panic("asked") })
	}()
	nobodyLeft(t, w)
}

func TestQuestionThatFailsEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, broken := newWaits(undecidedForEver().look), errors.New("broken")
		waited, err := await(t.Context(), w, numbered(1), time.Hour, func() (until, error) { return outcome, broken })
		if !waited || !errors.Is(err, broken) {
			t.Errorf("waited %v, %v", waited, err)
		}
		nobodyLeft(t, w)
	})
}

// What has an outcome, or cannot be read, is not waited for: it is read once.
func TestOutcomeThatIsThereIsReadOnce(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, first := range map[string]statusRead{
		"an outcome": {status: payment.Succeeded, key: "order-0000000001"}, "an error": {err: broken},
	} {
		s, reads := &Service{waits: newWaits(undecidedForEver().look)}, 0
		read := func() (payment.Status, string, error) {
			if reads++; reads > 1 {
				return payment.Succeeded, first.key, nil
			}
			return first.status, first.key, first.err
		}
		waited, err := s.awaitOutcome(t.Context(), "acme", payment.CreateOperation, time.Minute, read)
		if !waited || !errors.Is(err, first.err) || reads != 1 {
			t.Errorf("%s: waited %v, %v; read %d times", name, waited, err, reads)
		}
	}
}

// What panics in a goroutine that has no handler would end the process. And it is no answer.
func TestPanicOfAReadIsThatOfItsCaller(t *testing.T) {
	t.Parallel()
	defer func() {
		if got := recover(); got != "read" {
			t.Errorf("recovered %v", got)
		}
	}()
	r := apart(func() (payment.Status, string, error) { panic("read") })
	t.Errorf("read %+v", r)
}

func TestShutdownEndsAllWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		go func() {
			passes(1)
			close(w.over)
		}()
		if got := awaits(t.Context(), w, func(int) {}); got.err != nil || got.waited || got.took >= 2*lookInterval {
			t.Fatalf("the request that waits: %+v", got)
		}
		if got := awaits(t.Context(), w, func(int) {}); got != (waited{asked: 1}) {
			t.Fatalf("the next request: %+v", got)
		}
		passes(1)
		nobodyLeft(t, w)
	})
}
