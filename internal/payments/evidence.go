package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// Source is who brings evidence. It is the actor in the key's timeline.
type Source string

// The sources of evidence.
const (
	SourceOwner    Source = "owner" // the request itself, when others have overtaken it
	SourceWebhook  Source = "webhook"
	SourceLookup   Source = "lookup"
	SourceScan     Source = "scan"
	SourceOperator Source = "operator"
)

// Evidence is a record of the PSP's ledger, and who brings it.
type Evidence struct {
	Source Source
	Record gateway.Record
}

// Finding is what evidence came to: one of Settled, Confirmed, Lettered, LeftAlone.
//
//sumtype:decl
type Finding interface{ finding() }

// Settled: the evidence has completed the key, with the very response that the live request would have been answered.
type Settled struct {
	Resource Resource
	Response idempotency.Response
	Expires  time.Time
}

// Confirmed: it is known already.
type Confirmed struct{}

// Lettered: it contradicts what we know. Nothing has moved, and an operator has the case: New the first time that it is seen.
type Lettered struct {
	Kind deadletters.Kind
	New  bool
}

// LeftAlone: somebody else is at work on the key, who will come to know it.
type LeftAlone struct{}

func (Settled) finding()   {}
func (Confirmed) finding() {}
func (Lettered) finding()  {}
func (LeftAlone) finding() {}

// Settle brings evidence to the payment or refund that it is about. It may come late, early, twice or in any order: a verdict that
// is known does not move, and what contradicts it becomes a dead letter.
func (s *Service) Settle(ctx context.Context, e Evidence) (Finding, error) {
	c, err := s.locate(ctx, e.Record)
	switch {
	case errors.Is(err, errNotOurs):
		return s.putAside(ctx, deadletters.UnknownMovement, e, "the PSP has a "+string(e.Record.Object)+" that nothing of ours asked for")
	case err != nil:
		return nil, fmt.Errorf("locate evidence: %w", err)
	case c.movement.onBehalfOf().PSPAccount != e.Record.Account:
		// Nothing of it goes into the tenant's timeline: it is somebody else's.
		return s.putAside(ctx, deadletters.OtherAccount, e, "the PSP names one tenant's "+string(e.Record.Object)+" under another's account")
	}
	if e.Source == SourceScan {
		if busy, err := s.inOtherHands(ctx, c); err != nil || busy {
			return LeftAlone{}, err
		}
	}
	return s.settleCase(ctx, c, nil, c.testify(e))
}

// inOtherHands reports whether the key still has an owner or is being looked up: the scan is for what they have missed.
func (s *Service) inOtherHands(ctx context.Context, c *caseFile) (bool, error) {
	sight, err := s.keys.Look(ctx, c.execution.Ref)
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return false, nil
	case err != nil:
		return false, err
	}
	if sight.Execution.Generation != c.execution.Generation || sight.Execution.Subject != c.execution.Subject {
		return false, nil // they are at work on another payment
	}
	return sight.Status == idempotency.InProgressStatus || sight.Status == idempotency.UnknownStatus && sight.WindowLeft > 0, nil
}

// caseFile is a movement with the execution of a key that stands for it.
type caseFile struct {
	movement  movement
	execution idempotency.Execution // the attempt and the lease are those seen last
}

// testimony is an outcome with what has to be kept of it.
type testimony struct {
	source   Source
	outcome  gateway.Outcome
	evidence []byte // JSON, or nil
	id       string // of the PSP's record; "" if it has none
	excess   bool   // of a refund: its share of the payment has gone to another one
}

// testify reads a record as what it says of the case.
func (c *caseFile) testify(e Evidence) testimony {
	return testimony{
		source: e.Source, outcome: c.movement.judge(c.execution.PassThroughKey(), e.Record), evidence: e.Record.Evidence(),
		id: e.Record.ID,
	}
}

// settleCase writes what a testimony says, whatever the key has become: it looks, decides, and writes under the condition that
// nothing has moved in between; otherwise it looks again. before is what the key was a while ago, or nil: that will do for the first try
// where the condition makes up for its age, and it mostly does.
func (s *Service) settleCase(ctx context.Context, c *caseFile, before *keyState, t testimony) (Finding, error) {
	for try := range maxReads {
		k, aged, err := before, before != nil, error(nil)
		if before = nil; !aged {
			k, err = s.keyState(ctx, c.execution.Ref)
		}
		if err != nil {
			return nil, err
		}
		w, err := s.weigh(ctx, c, *k, t)
		if err != nil {
			return nil, err
		}
		if aged && !w.guarded {
			continue
		}
		if w.queue == nil {
			return w.finding(idempotency.Passage{}), nil
		}
		done, err := s.write(ctx, c, w, try > 0)
		switch {
		case BelongsToAnother(err):
			t.outcome = underAnothersID(t.outcome)
			continue
		case postgres.Violates(err, "idempotency_keys_dead_lettered_stay"):
			continue // a letter was opened that says that money moved: a decline is for an operator now
		case postgres.Violates(err, "payments_refunds_within_amount"):
			t.excess = true
			continue
		case err != nil && postgres.RolledBack(err):
			return nil, fmt.Errorf("settle: %w", err)
		case err != nil:
			s.metrics.CommitAmbiguous() // the next look tells
			continue
		}
		if done.Through {
			s.log.InfoContext(ctx, "evidence settled", slog.String("source", string(t.source)), slog.String("came to", w.label))
			return w.finding(done), nil
		}
	}
	return nil, &postgres.UnavailableError{Op: "settle", Err: fmt.Errorf("the key has moved %d times under our eyes", maxReads)}
}

// keyState is where a key stands, and for which execution. It is empty when the key is gone.
type keyState struct {
	execution idempotency.Execution
	status    idempotency.Status
}

func (s *Service) keyState(ctx context.Context, ref idempotency.Ref) (*keyState, error) {
	row, err := s.keys.Find(ctx, ref)
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return &keyState{}, nil
	case err != nil:
		return nil, err
	}
	return &keyState{execution: row.Execution(), status: row.Status}, nil
}
