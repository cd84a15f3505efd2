package payments

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/watch"
)

// Three functions wait: WaitFor, AwaitPayment and AwaitRefund. Each returns when there is nothing to wait for any more,
// or when the limit has passed. They also say whether they have waited as they were asked to. They have not if too many
// requests wait already, or if the process is shutting down: then they return at once.
//
// A commit of this process wakes its requests at once. The next read of the waited keys finds everything else: a commit
// of another process, the end of a dead process's lease, and a commit whose acknowledgement was lost.

// until is what a request waits for.
type until int

const (
	nothing      until = iota
	executionEnd       // the key is not in flight any more
	outcome            // the key is not in progress any more, and not unknown
)

// over reports whether the wait for a key that was read is over.
func (u until) over(inFlight, undecided bool) bool {
	return !undecided || !inFlight && u == executionEnd
}

// MaxWaiting is how many requests of a process may wait at the same time. Each costs up to 20 KB, and its connection.
// The requests of one tenant take at most as many places as they leave free: half of them, if no other tenant's
// requests wait. So one tenant never keeps another one's requests from waiting.
const MaxWaiting = 2000

// waits are the requests of this process that wait.
type waits struct {
	keys *watch.Keys[bool] // whether an undecided key is in flight
	over chan struct{}     // closed when no request may wait any more

	mu      sync.Mutex
	waiting int            // requests that wait, for all keys together
	tenants map[string]int // of them, those of each tenant
}

func newWaits(undecided func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error)) *waits {
	return &waits{keys: watch.New(undecided), over: make(chan struct{}), tenants: map[string]int{}}
}

// enter refuses if too many requests wait, of all tenants or of this one, or if no request may wait any more. Otherwise
// the caller calls leave once.
func (w *waits) enter(tenant string) (ok bool) {
	select {
	case <-w.over:
		return false
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tenants[tenant] >= MaxWaiting-w.waiting {
		return false
	}
	w.waiting++
	w.tenants[tenant]++
	return true
}

func (w *waits) leave(tenant string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	if w.tenants[tenant]--; w.tenants[tenant] == 0 {
		delete(w.tenants, tenant)
	}
}

// Patience is how long a request waits, and for what.
type Patience struct {
	Limit time.Duration
	// Outcome: the request also waits while the outcome of its key is unknown, and not only while the key is in flight.
	Outcome bool
}

// WaitFor calls ask, which executes a request under the key. While the answer is one to wait for, it waits until the
// key has changed, and calls ask again. Each call tries to reserve the key, so ask is not called more often than that.
// The first call is made before the request takes part in the waits, so a request that does not wait takes no
// lock for them.
func (s *Service) WaitFor(
	ctx context.Context, ref idempotency.Ref, p Patience, ask func() (Answer, error),
) (answer Answer, waited bool, err error) {
	answer, err = apart(ask)
	if err != nil || p.awaits(answer) == nothing {
		return answer, true, err
	}
	waited, err = await(ctx, s.waits, ref, p.Limit, func() (until, error) {
		answer, err = apart(ask)
		return p.awaits(answer), err
	})
	return answer, waited, err
}

// awaits is what the request waits for after this answer.
func (p Patience) awaits(a Answer) until {
	if what := awaitedBy(a); p.Outcome || what != outcome {
		return what
	}
	return nothing
}

// awaitedBy: a request that has lost the outcome of its own execution does not wait. Asked again, the stored answer
// would be called a replay, and there was no earlier answer.
func awaitedBy(a Answer) until {
	switch a := a.(type) {
	case InFlight:
		return executionEnd
	case Pending:
		if a.Recalled {
			return outcome
		}
	case nil, Final, Mismatch, NotExecuted, Forgotten, Held:
	}
	return nothing
}

// AwaitPayment waits while the payment is processing. It fails as Payment does.
func (s *Service) AwaitPayment(
	ctx context.Context, tenant string, id payment.ID, limit time.Duration,
) (waited bool, err error) {
	return awaitOutcome(ctx, s.waits, tenant, payment.CreateOperation, limit, func() (statusRead, error) {
		p, err := s.Payment(ctx, tenant, id)
		return statusRead{p.Status, p.Key}, err
	})
}

// AwaitRefund waits while the refund is processing. It fails as RefundByID does.
func (s *Service) AwaitRefund(
	ctx context.Context, tenant string, id payment.RefundID, limit time.Duration,
) (waited bool, err error) {
	return awaitOutcome(ctx, s.waits, tenant, payment.RefundOperation, limit, func() (statusRead, error) {
		r, err := s.RefundByID(ctx, tenant, id)
		return statusRead{r.Status, r.Key}, err
	})
}

func awaitOutcome(
	ctx context.Context, w *waits, tenant, operation string, limit time.Duration, read func() (statusRead, error),
) (waited bool, err error) {
	first, err := apart(read)
	if first.status != payment.Processing { // A read that has failed has no status.
		return true, err
	}
	return await(ctx, w, idempotency.StoredRef(tenant, operation, first.key), limit, func() (until, error) {
		next, err := apart(read)
		return awaitedIn(next.status), err
	})
}

// statusRead is what awaitOutcome reads.
type statusRead struct {
	status payment.Status
	key    string
}

// apart asks in a goroutine of its own, which costs a payment some microseconds. A question to the database needs a
// stack of 16 KiB, and a goroutine that has had one keeps it while it waits: with a thousand of them, 8 MB more.
func apart[T any](ask func() (T, error)) (answer T, err error) {
	done := make(chan *panicked, 1)
	go func() {
		var p *panicked
		defer func() { done <- p }()
		defer func() {
			if cause := recover(); cause != nil {
				p = &panicked{cause, debug.Stack()}
			}
		}()
		answer, err = ask()
	}()
	if p := <-done; p != nil {
		panic(p) // The caller's goroutine has the handler that logs it.
	}
	return answer, err
}

// panicked is the panic of another goroutine.
type panicked struct {
	cause any
	stack []byte
}

// Stack is that of the goroutine that has panicked.
func (p *panicked) Stack() []byte { return p.stack }

// awaitedIn: a payment or refund is processing exactly as long as its key is in progress or unknown.
func awaitedIn(s payment.Status) until {
	if s == payment.Processing {
		return outcome
	}
	return nothing
}

// Waiting is the number of requests that wait.
func (s *Service) Waiting() int {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	return s.waits.waiting
}

// EndWaits answers all requests that wait, and lets no request wait any more. It is called once, when the process shuts
// down, which must not take longer because somebody waits.
func (s *Service) EndWaits() { close(s.waits.over) }

// await calls ask until there is nothing to wait for, or limit has passed. It joins the waits before it asks: a change
// that is committed between the question and the wait still wakes it. If it may not wait, it does not ask.
func await(
	ctx context.Context, w *waits, ref idempotency.Ref, limit time.Duration, ask func() (until, error),
) (waited bool, err error) {
	if !w.enter(ref.Tenant) {
		return false, nil
	}
	defer w.leave(ref.Tenant)
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for changed := true; changed; {
		changed, waited, err = w.once(ctx, ref, deadline.C, ask)
	}
	return waited, err
}

// once asks, and waits for one change of the key. It says whether the key has changed.
func (w *waits) once(
	ctx context.Context, ref idempotency.Ref, deadline <-chan time.Time, ask func() (until, error),
) (changed, waited bool, err error) {
	m := w.keys.Join(ref)
	defer m.Leave() // ask may panic
	what, err := ask()
	if err != nil || what == nothing {
		return false, true, err
	}
	m.Wait(what.over)
	select {
	case <-m.Changed():
		return true, true, nil
	case <-deadline:
		return false, true, nil
	case <-w.over:
		return false, false, nil
	case <-ctx.Done():
		return false, true, ctx.Err()
	}
}
