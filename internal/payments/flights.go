package payments

import (
	"sync"

	"payonce/internal/idempotency"
)

// flights knows which keys this process executes now, so that a request that waits for one hears of its end at once.
type flights struct {
	mu   sync.Mutex
	keys map[idempotency.Ref]*flight
}

type flight struct {
	requests int
	done     chan struct{}
}

func newFlights() *flights { return &flights{keys: map[idempotency.Ref]*flight{}} }

// begin notes one more request with the key, and returns what notes its end.
func (f *flights) begin(ref idempotency.Ref) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.keys[ref]
	if fl == nil {
		fl = &flight{done: make(chan struct{})}
		f.keys[ref] = fl
	}
	fl.requests++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if fl.requests--; fl.requests == 0 {
			delete(f.keys, ref)
			close(fl.done)
		}
	}
}

// landed is closed when no request of this process has the key any more; nil, which blocks for ever, when there is none.
func (f *flights) landed(ref idempotency.Ref) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.keys[ref]; fl != nil {
		return fl.done
	}
	return nil
}
