package payments

import (
	"context"
	"sync"
	"time"

	"payonce/internal/idempotency"
)

// pollInterval is how often a waiting request looks whether another process has finished its key.
const pollInterval = 200 * time.Millisecond

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

// WaitFor repeats ask while its answer is InFlight, until limit has passed: after the end of the request that is being waited for,
// or at short intervals when another process has it. It returns the last answer.
func (s *Service) WaitFor(
	ctx context.Context, tenant, operation string, key idempotency.Key, limit time.Duration,
	ask func() (Answer, error),
) (Answer, error) {
	ref := idempotency.Ref{Scope: idempotency.ScopeOf(tenant, operation), Key: key}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		answer, err := ask()
		if _, busy := answer.(InFlight); err != nil || !busy {
			return answer, err
		}
		poll := time.NewTimer(pollInterval)
		select {
		case <-s.flights.landed(ref):
			poll.Stop()
		case <-poll.C:
		case <-deadline.C:
			poll.Stop()
			return answer, nil
		case <-ctx.Done():
			poll.Stop()
			return answer, ctx.Err()
		}
	}
}
