package watch

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
)

// lookedAt is what a look sees: the keys that are undecided; or that the database is away.
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
func keysSeen(refs ...idempotency.Ref) map[idempotency.Ref]bool {
	seen := map[idempotency.Ref]bool{}
	for _, ref := range refs {
		seen[ref] = true
	}
	return seen
}

func numbered(n int) idempotency.Ref {
	return idempotency.StoredRef("acme", "POST /payments", fmt.Sprintf("order-%010d", n))
}

// waitsFor joins a key and waits until it is not undecided any more.
func waitsFor(w *Keys[bool], ref idempotency.Ref) *Member[bool] {
	m := w.Join(ref)
	m.Wait(func(_, undecided bool) bool { return !undecided })
	return m
}

func woken(m *Member[bool]) bool {
	select {
	case <-m.Changed():
		return true
	default:
		return false
	}
}

// passes lets so many looks happen.
func passes(looks int) {
	<-time.NewTimer(time.Duration(looks)*Interval + Interval/2).C
	synctest.Wait()
}

// nobodyLeft checks that nothing is left of those who have come and gone.
func nobodyLeft(t *testing.T, w *Keys[bool]) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.keys) != 0 || w.Len() != 0 || w.looking {
		t.Fatalf("%d keys are left, %d are counted, and it looks: %v", len(w.keys), w.Len(), w.looking)
	}
}

func TestOneLookIsForAllWhoWaitAndThereIsNoneForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := numbered(1), numbered(2)
		b := &lookedAt{seen: keysSeen(one, two)}
		w := New(b.look)
		joined := w.Join(numbered(3)) // It has joined and does not wait, so nobody looks for it.
		passes(3)
		if b.looks != 0 {
			t.Fatalf("%d looks for a request that does not wait", b.looks)
		}
		all := []*Member[bool]{nil}
		for _, ref := range []idempotency.Ref{one, one, one, two} {
			all = append(all, waitsFor(w, ref))
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
		b.becomes(nil, keysSeen(two))
		passes(1)
		if !woken(all[1]) || !woken(all[3]) || woken(all[4]) {
			t.Fatal("the end of the first key is not told, or one of the second")
		}
		// It is executed once more, and waited for again, before all have left.
		b.becomes(nil, keysSeen(one, two))
		again := waitsFor(w, one)
		joined.Leave()
		for _, m := range all[1:4] {
			m.Leave()
		}
		passes(1)
		if asked := b.asked[len(b.asked)-1]; woken(again) || asked != 2 {
			t.Fatalf("of the second wait: ended %v, %d keys looked at", woken(again), asked)
		}
		again.Leave()
		all[4].Leave()
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
		var w *Keys[bool]
		var first, second *Member[bool]
		w = New(func(_ context.Context, refs []idempotency.Ref) (map[idempotency.Ref]bool, error) {
			if second != nil {
				return keysSeen(refs...), nil
			}
			w.Wake(numbered(1))
			second = waitsFor(w, numbered(1))
			return nil, nil
		})
		first = waitsFor(w, numbered(1))
		passes(2)
		if !woken(first) || woken(second) {
			t.Fatalf("woken: the first %v, the second %v", woken(first), woken(second))
		}
		first.Leave()
		second.Leave()
		passes(1)
		nobodyLeft(t, w)
	})
}

func TestLookHasNoMoreKeysThanItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &lookedAt{}
		w := New(b.look)
		var all []*Member[bool]
		for i := range 2*keysInALook + 1 {
			all = append(all, waitsFor(w, numbered(i)))
		}
		passes(1)
		if b.looks != 3 || b.asked[0] != keysInALook || b.asked[1] != keysInALook || b.asked[2] != 1 {
			t.Fatalf("%d looks, at %v keys", b.looks, b.asked)
		}
		for i, m := range all {
			if !woken(m) {
				t.Fatalf("request %d is not told", i)
			}
			m.Leave()
		}
		passes(1)
		nobodyLeft(t, w)
	})
}
