package payments

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"payonce/internal/idempotency"
)

// lookInterval is how often a process reads whether the keys that its requests wait for are still being executed.
const lookInterval = 200 * time.Millisecond

// WaitFor calls ask. While the answer is InFlight, it waits for the end of that execution and calls ask again, until
// limit has passed. It returns the last answer.
//
// Each call of ask tries to reserve the key, so ask is called only when the execution has ended. WaitFor is woken at
// once if this process executes the key. If another process executes it, or the lease of a dead process ends, the next
// read of the keys shows it.
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
		case <-s.runningKeys.ended(ref):
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

// waits are the keys that requests of this process wait for. While there are any, one goroutine reads all of them
// together. So the cost does not grow with the number of waiting requests, and an idle process reads nothing.
type waits struct {
	inFlight func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error)

	mu   sync.Mutex
	keys map[idempotency.Ref]*wait
	stop context.CancelFunc // stops the goroutine; nil while there is none
}

type wait struct {
	requests int
	ended    chan struct{}
}

func newWaits(inFlight func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error)) *waits {
	return &waits{inFlight: inFlight, keys: map[idempotency.Ref]*wait{}}
}

// join returns a channel that is closed when nobody executes the key any more. The caller calls leave when it stops
// waiting.
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
		// The goroutine works for all requests, so its context belongs to none of them.
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		go w.poll(ctx)
	}
	return k.ended, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if k.requests--; k.requests == 0 {
			w.forget(ref, k)
		}
	}
}

// forget removes a key, and stops the goroutine after the last one. The caller holds mu.
func (w *waits) forget(ref idempotency.Ref, k *wait) {
	if w.keys[ref] == k {
		delete(w.keys, ref)
	}
	if len(w.keys) == 0 && w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// poll reads the keys until ctx ends, and closes the channels of those that have ended. A failed read changes nothing:
// the next one may succeed.
func (w *waits) poll(ctx context.Context) {
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
			w.wake(seen, inFlight)
		}
	}
}

func (w *waits) waitedFor() map[idempotency.Ref]*wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.keys)
}

// wake closes the channels of the keys that are not in flight any more.
func (w *waits) wake(seen map[idempotency.Ref]*wait, inFlight map[idempotency.Ref]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref, k := range seen {
		if !inFlight[ref] && w.keys[ref] == k {
			close(k.ended)
			w.forget(ref, k)
		}
	}
}
