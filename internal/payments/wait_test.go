package payments

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"payonce/internal/idempotency"
)

// lookedAt is what a look sees: which keys are in flight, or that the database is away.
type lookedAt struct {
	mu       sync.Mutex
	inFlight map[idempotency.Ref]bool
	away     error
	looks    int
	asked    int // keys in the last look
}

func (b *lookedAt) look(_ context.Context, refs []idempotency.Ref) (map[idempotency.Ref]bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	b.asked = len(refs)
	return maps.Clone(b.inFlight), b.away
}

// becomes is what the next looks see.
func (b *lookedAt) becomes(away error, inFlight ...idempotency.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.inFlight = away, map[idempotency.Ref]bool{}
	for _, ref := range inFlight {
		b.inFlight[ref] = true
	}
}

func over(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

func TestOneLookIsForAllWhoWaitAndThereIsNoneForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := idempotency.StoredRef("acme", "POST /payments", "order-0000000001"),
			idempotency.StoredRef("acme", "POST /payments", "order-0000000002")
		b := &lookedAt{}
		b.becomes(nil, one, two)
		w := newWaits(b.look)
		passes := func(looks int) {
			<-time.NewTimer(time.Duration(looks)*lookInterval + lookInterval/2).C
			synctest.Wait()
		}
		var ended []<-chan struct{}
		var leave []func()
		for _, ref := range []idempotency.Ref{one, one, one, two} {
			e, l := w.join(ref)
			ended, leave = append(ended, e), append(leave, l)
		}
		passes(3)
		if b.looks != 3 || b.asked != 2 {
			t.Fatalf("%d looks, the last at %d keys", b.looks, b.asked)
		}
		b.becomes(errors.New("away"))
		passes(1)
		if over(ended[0]) {
			t.Fatal("a look that failed tells an end")
		}
		b.becomes(nil, two)
		passes(1)
		if !over(ended[0]) || !over(ended[2]) || over(ended[3]) {
			t.Fatal("the end of the first key is not told, or one of the second")
		}
		// It is executed once more, and waited for again, before all have left.
		b.becomes(nil, one, two)
		e, l := w.join(one)
		for _, each := range leave[:3] {
			each()
		}
		passes(1)
		if over(e) || b.asked != 2 {
			t.Fatalf("of the second wait: ended %v, %d keys looked at", over(e), b.asked)
		}
		l()
		leave[3]()
		before := b.looks
		passes(5)
		if b.looks != before || w.stop != nil || len(w.keys) != 0 {
			t.Fatalf("%d looks for nobody", b.looks-before)
		}
	})
}
