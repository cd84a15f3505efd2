package payments

import (
	"context"
	"errors"
	"sync"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
)

// crowds let equal requests of this process look at their key together. A look reserves the key, or finds why it cannot
// be reserved. One request looks, for all who have come before the look began. Those who come meanwhile look together
// when it has ended: an answer is never older than its request. So ten thousand equal payments at once cost the
// database a few looks, and the others wait for no more than these. A refund reads its payment by itself before.
type crowds struct {
	mu    sync.Mutex
	looks map[asked]*look // those that are under way
}

// asked is what equal requests have in common.
type asked struct {
	ref         idempotency.Ref
	fingerprint idempotency.Fingerprint
}

// look is one look at a key, and what it has found.
type look struct {
	next   *look         // of those who come while this one is under way; or nil
	begins chan struct{} // closed when it may begin; nil if nothing was under way
	ends   chan struct{} // closed when it has ended; nil as begins
	answer Answer
	err    error
}

// join takes part in a look that has not begun. The one who leads it looks, and calls end once.
func (c *crowds) join(what asked) (l *look, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.looks[what]
	switch {
	case now == nil:
		l = &look{}
		c.looks[what] = l
		return l, true
	case now.next == nil:
		now.next = &look{begins: make(chan struct{}), ends: make(chan struct{})}
		return now.next, true
	}
	return now.next, false
}

func (c *crowds) end(what asked, l *look) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.ends != nil {
		close(l.ends)
	}
	if l.next == nil {
		delete(c.looks, what)
		return
	}
	c.looks[what] = l.next
	close(l.next.begins)
}

// errNoLook is what the others get if the one who looks for them does not come back. It is a bug of ours.
var errNoLook = errors.New("the look at the key was abandoned")

// look reserves the key, and returns the lease. If it cannot, or if an equal request has looked, it returns the answer.
func (s *Service) look(
	ctx context.Context, r idempotency.Reservation, m *movement,
) (won *idempotency.Lease, begun *movement, _ Answer, _ error) {
	what := asked{r.Ref, r.Fingerprint}
	l, leads := s.crowds.join(what)
	for again := true; !leads; l, leads = s.crowds.join(what) {
		select {
		case <-l.ends:
		case <-ctx.Done():
			return nil, nil, nil, &postgres.UnavailableError{Op: "wait for an equal request", Err: ctx.Err()}
		}
		if !again || !postgres.Unavailable(l.err) {
			countAnswer(s.metrics, l.answer)
			return nil, nil, l.answer, l.err
		}
		again = false // One request that got no connection must not cost all the others their answer.
	}
	if l.begins != nil {
		<-l.begins // It comes: the request that looks has a deadline.
	}
	l.err = errNoLook // until it is known what the others are told: a panic leaves them nothing else
	defer s.crowds.end(what, l)
	decision, begun, err := s.reserve(ctx, r, m)
	var answer Answer
	executes, ours := decision.(idempotency.Execute)
	switch {
	case err != nil:
	case ours:
		answer = inFlight(begun, executes.Lease.KeyExpires())
	default:
		answer, err = s.answerDecision(ctx, r.Ref, decision, m)
	}
	l.answer, l.err = answer, err
	if err == nil && ours {
		return &executes.Lease, begun, nil, nil
	}
	return nil, nil, answer, err
}

// countAnswer counts an answer that another request has found.
func countAnswer(m *telemetry.Metrics, a Answer) {
	switch a.(type) {
	case Final:
		m.Reserved("replay")
	case InFlight:
		m.Reserved("in_progress")
	case Mismatch:
		m.Reserved("key_misuse")
	case Pending:
		m.Reserved("unknown")
	case Held:
		m.Reserved("held")
	case nil, NotExecuted, Forgotten:
	}
}
