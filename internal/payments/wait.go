package payments

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"payonce/internal/idempotency"
)

// lookInterval is how often a process looks whether the keys that its requests wait for are still executed.
const lookInterval = 200 * time.Millisecond

// WaitFor asks, and while the answer is InFlight, asks again when the request that is being waited for has come to its end, until limit has
// passed. It returns the last answer.
//
// To ask is a reservation, so it is not repeated in vain. An end in this process is heard of at once, and one in another process, or the end of the
// lease of a process that is gone, at the next look.
func (s *Service) WaitFor(
	ctx context.Context, tenant string, operation idempotency.Operation, key idempotency.Key, limit time.Duration,
	ask func() (Answer, error),
) (Answer, error) {
	ref := idempotency.Ref{Tenant: tenant, Operation: operation, Key: key}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		answer, err := ask()
		if _, busy := answer.(InFlight); err != nil || !busy {
			return answer, err
		}
		ended, leave := s.waits.join(ref)
		select {
		case <-s.flights.landed(ref):
			leave()
		case <-ended:
			leave()
		case <-deadline.C:
			leave()
			return answer, nil
		case <-ctx.Done():
			leave()
			return answer, ctx.Err()
		}
	}
}

// waits knows the keys that requests of this process wait for. While there is one, a goroutine looks at all of them together, so the cost does not
// grow with their number, and an idle process looks at nothing.
type waits struct {
	inFlight func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error)

	mu   sync.Mutex
	keys map[idempotency.Ref]*wait
	stop context.CancelFunc // of the goroutine; nil while there is none
}

type wait struct {
	requests int
	ended    chan struct{}
}

func newWaits(inFlight func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error)) *waits {
	return &waits{inFlight: inFlight, keys: map[idempotency.Ref]*wait{}}
}

// join returns what is closed once nobody executes the key any more, and what must be called when it is not waited for any more.
func (w *waits) join(ref idempotency.Ref) (ended <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keys[ref]
	if k == nil {
		k = &wait{ended: make(chan struct{})}
		w.keys[ref] = k
	}
	k.requests++
	if w.stop == nil {
		// Of no request: it looks for all of them.
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		go w.look(ctx)
	}
	return k.ended, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if k.requests--; k.requests == 0 {
			w.forget(ref, k)
		}
	}
}

// forget ends the goroutine with the last key. The caller holds mu.
func (w *waits) forget(ref idempotency.Ref, k *wait) {
	if w.keys[ref] == k {
		delete(w.keys, ref)
	}
	if len(w.keys) == 0 && w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// look tells those whose keys have come to their end, until ctx ends. A look that fails tells nothing: the next one may.
func (w *waits) look(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		seen := w.waitedFor()
		if inFlight, err := w.inFlight(ctx, slices.Collect(maps.Keys(seen))); err == nil {
			w.tell(seen, inFlight)
		}
	}
}

func (w *waits) waitedFor() map[idempotency.Ref]*wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.keys)
}

func (w *waits) tell(seen map[idempotency.Ref]*wait, inFlight map[idempotency.Ref]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref, k := range seen {
		if !inFlight[ref] && w.keys[ref] == k {
			close(k.ended)
			w.forget(ref, k)
		}
	}
}
