package payments

import (
	"context"
	"slices"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
)

// Effect is what evidence has changed: one of Completed, Confirmed, DeadLettered, Foreign.
//
//sumtype:decl
type Effect interface{ effect() }

// Completed says that the evidence has completed the key. Its response is the one that the request itself would have
// got.
type Completed struct{}

// Confirmed says that the evidence was known already, or changes nothing. Somebody else may be working on the key, and
// will find out the same.
type Confirmed struct{}

// DeadLettered says that the evidence contradicts what we know. The key has not moved, and an operator has the case.
// New is true if this has opened the dead letter, and false if it was open before.
type DeadLettered struct {
	Kind deadletters.Kind
	New  bool
}

// Foreign says that the evidence is about a charge of another program on the PSP's account.
type Foreign struct{}

func (Foreign) effect()      {}
func (Completed) effect()    {}
func (Confirmed) effect()    {}
func (DeadLettered) effect() {}

// ApplyRecord judges a record for the payment or refund that it is about, and writes the step. The record may come
// late, early, twice or in any order. A verdict that is known does not change. A record that contradicts it opens a
// dead letter.
func (s *Service) ApplyRecord(ctx context.Context, e judge.Record) (Effect, error) {
	g, err := s.GatherRecord(ctx, e)
	if err != nil {
		return nil, err
	}
	ctx, span := s.tracer.Later(ctx, string(e.Source), g.Seen.Own.Subject)
	defer span.End()
	e = s.asItIsNow(ctx, g, e)
	_, step, applied, err := s.judgeAndApply(ctx, g, e)
	if err != nil {
		return nil, err
	}
	return effectOf(step, applied), nil
}

// asItIsNow reads the record of a refund of ours at the PSP before it becomes an operator's case. A webhook, a scan and
// an operator's retry tell what was so when the record was made, and a bank may have refused the refund since. If the
// PSP does not have it, or does not answer, what was told counts, as it does for a charge: no PSP takes a success back.
func (s *Service) asItIsNow(ctx context.Context, g Gathered, e judge.Record) judge.Record {
	_, refund := g.Seen.Request.(gateway.Refund)
	if !refund || e.Source == judge.SourceLookup || judge.Judge(g.Seen, e).Open() == nil {
		return e
	}
	found, _ := s.psps.Of(g.Seen.PSP).Lookup(ctx, g.Seen.Request, gateway.EndNothing).(gateway.Found)
	if i := slices.IndexFunc(found.Records, func(r gateway.Record) bool { return r.ID == e.Record.ID }); i >= 0 {
		e.Record = found.Records[i]
	}
	return e
}

func effectOf(step judge.Step, applied Applied) Effect {
	switch {
	case step.To() == idempotency.CompletedStatus:
		return Completed{}
	case step.Open() != nil:
		return DeadLettered{Kind: step.Open().Kind, New: applied.Opened}
	case step.Foreign():
		return Foreign{}
	}
	return Confirmed{}
}
