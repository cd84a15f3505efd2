package payments

import (
	"sync"

	"payonce/internal/idempotency"
)

// runningKeys are the keys that this process executes now. A request that waits for such a key is woken as soon as the
// execution ends.
type runningKeys struct {
	mu   sync.Mutex
	keys map[idempotency.Ref]*runningKey
}

type runningKey struct {
	requests int
	done     chan struct{}
}

func newRunningKeys() *runningKeys { return &runningKeys{keys: map[idempotency.Ref]*runningKey{}} }

// begin counts one more request with the key. The caller calls end when that request is over.
func (r *runningKeys) begin(ref idempotency.Ref) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.keys[ref]
	if k == nil {
		k = &runningKey{done: make(chan struct{})}
		r.keys[ref] = k
	}
	k.requests++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if k.requests--; k.requests == 0 {
			delete(r.keys, ref)
			close(k.done)
		}
	}
}

// ended returns a channel that is closed when no request of this process executes the key any more. If there is none
// now, the channel is nil, which blocks for ever.
func (r *runningKeys) ended(ref idempotency.Ref) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.keys[ref]; k != nil {
		return k.done
	}
	return nil
}
