package operator

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
	"payonce/internal/problem"
	"payonce/internal/query"
)

// Bounds of one decision about several dead letters.
const (
	MaxSeveral    = 500
	severalAtOnce = 4 // leaves connections and the PSP's places to payments
	// After longestSeveral, no further dead letter is begun. The last decision that was begun then has longestOfSeveral
	// to end: the longest PSP_TIMEOUT, and some seconds for the database. Both together are shorter than the server's
	// write timeout.
	longestSeveral   = 10 * time.Second
	longestOfSeveral = 18 * time.Second
)

// ErrPlanMalformed says that a text is not a plan.
var ErrPlanMalformed = errors.New("plan malformed")

// ErrPlanOld says that the dead letters of a plan are not the same any more. Somebody has resolved one, or one that was
// opened before the plan was made has been committed since.
var ErrPlanOld = errors.New("the dead letters have changed since the plan was made")

// Plan is one decision about several dead letters, before it is carried out.
type Plan struct {
	Action deadletters.Action
	Filter deadletters.Filter // OpenedBefore is set: a dead letter that is opened later is not in the plan
	Steps  []PlannedStep      // newest dead letter first
	More   bool               // there are older dead letters, for another plan
	Token  string             // for Run
}

// PlannedStep says what a plan does about one dead letter.
type PlannedStep struct {
	Entry
	Preview
}

// Refused counts the dead letters for which the action would be refused.
func (p Plan) Refused() (n int) {
	for _, s := range p.Steps {
		if s.Refused != nil {
			n++
		}
	}
	return n
}

// forSeveral reports whether an action can be decided for several dead letters at once. Not executed cannot: the next
// retry of the client may charge, so somebody must have looked at each.
func forSeveral(a deadletters.Action) bool {
	return a == deadletters.Retry || a == deadletters.Executed || a == deadletters.Dismiss
}

// Selection is what an operator wants to decide about several dead letters.
type Selection struct {
	Action deadletters.Action
	Filter deadletters.Filter
}

// SelectionOf reads an action and a filter. The parameters are those of the list of dead letters, without status,
// limit and cursor: only open dead letters are decided about.
func SelectionOf(action string, values url.Values) (Selection, []problem.Detail) {
	q := &query.Query{Values: values}
	s := Selection{Action: deadletters.Action(action), Filter: deadLettersOf(q)}
	switch {
	case s.Action == deadletters.NotExecuted:
		q.Refuse("action", "must not be not_executed for several dead letters: look at each of them alone")
	case !forSeveral(s.Action):
		q.Refuse("action", "must be retry, executed or dismiss")
	}
	return s, q.Bad()
}

// Plan finds the dead letters of a selection, and what the action would do about each. It writes nothing.
func (s *Service) Plan(ctx context.Context, selection Selection) (Plan, error) {
	return s.planWithin(ctx, longestSeveral, selection)
}

func (s *Service) planWithin(ctx context.Context, longest time.Duration, selection Selection) (Plan, error) {
	now, err := s.config.DB.Clock(ctx)
	if err != nil {
		return Plan{}, err
	}
	// The plan is about what is there now. Time that passes until it is carried out adds nothing to it.
	until := now.Add(-selection.Filter.Age).UTC()
	if selection.Filter.OpenedBefore == nil || until.Before(*selection.Filter.OpenedBefore) {
		selection.Filter.OpenedBefore = &until
	}
	selection.Filter.Age = 0
	p := Plan{Action: selection.Action, Filter: selection.Filter}
	found, more, err := s.several(ctx, selection.Filter)
	if err != nil {
		return Plan{}, err
	}
	p.Steps, p.More = make([]PlannedStep, len(found)), more
	f := selection.Filter
	p.Token = token{selection.Action, f.Kind, f.Tenant, f.OpenedAfter, f.OpenedBefore, digest(found)}.String()
	for i, e := range found {
		p.Steps[i] = PlannedStep{e, Preview{Action: selection.Action,
			Does: "It was not found out in time. It is found out when the plan is carried out."}}
	}
	inTime, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	err = each(inTime, found, func(i int, e Entry) error {
		preview, err := s.preview(inTime, e.DeadLetter, judge.OperatorDecision{Action: selection.Action,
			Version: e.Version, PSPConfirms: true})
		if err == nil {
			p.Steps[i].Preview = preview
		}
		return err
	})
	if inTime.Err() != nil {
		err = ctx.Err() // The plan says what was not found out.
	}
	return p, err
}

// several reads the open dead letters of a plan, newest first.
func (s *Service) several(ctx context.Context, f deadletters.Filter) (found []Entry, more bool, err error) {
	f.Limit = deadletters.MaxPage
	for {
		page, err := deadletters.List(ctx, s.config.DB, f)
		if err != nil {
			return nil, false, err
		}
		entries, err := entries(ctx, s.config.DB.Reader(), page.DeadLetters)
		if err != nil {
			return nil, false, err
		}
		found = append(found, entries...)
		if page.Next == nil || len(found) >= MaxSeveral {
			return found, page.Next != nil, nil
		}
		f.Before = page.Next
	}
}

// digest names a set of dead letters with their versions.
func digest(entries []Entry) []byte {
	h := sha256.New()
	for _, e := range entries {
		h.Write(e.ID[:])
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(e.Version))) //nolint:gosec // versions begin at 1
	}
	return h.Sum(nil)
}

// each calls do for the entries, some at the same time. It begins no further one when ctx has ended. A panic is carried
// over to the caller: in a goroutine of its own it would end the process.
func each(ctx context.Context, entries []Entry, do func(i int, e Entry) error) error {
	var g errgroup.Group
	var panicked atomic.Pointer[any]
	g.SetLimit(severalAtOnce)
	for i, e := range entries {
		g.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					panicked.Store(&p)
				}
			}()
			select {
			case <-ctx.Done(): // perhaps while it has waited for its turn
				return nil
			default:
				return do(i, e)
			}
		})
	}
	err := g.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
	return err
}

// Ran is what came of a plan.
type Ran struct {
	Action   deadletters.Action
	Outcomes []Outcome
}

// Count counts the outcomes with a status.
func (r Ran) Count(status OutcomeStatus) (n int) {
	for _, o := range r.Outcomes {
		if o.Did == status {
			n++
		}
	}
	return n
}

// Run carries out a plan: each decision is judged once more, is a transaction of its own, and is audited under the
// actor. It fails with ErrPlanMalformed, and with ErrPlanOld if one of the dead letters was resolved meanwhile. The end
// of ctx does not stop it, as it does not stop Resolve.
func (s *Service) Run(ctx context.Context, plan, reason, actor string) (Ran, error) {
	t, err := parseToken(plan)
	if err != nil {
		return Ran{}, err
	}
	found, _, err := s.several(ctx, t.filter())
	if err != nil {
		return Ran{}, err
	}
	if string(digest(found)) != string(t.Digest) {
		return Ran{}, ErrPlanOld
	}
	ran := Ran{Action: t.Action, Outcomes: make([]Outcome, len(found))}
	for i, e := range found {
		ran.Outcomes[i] = Outcome{Entry: e, Did: WasLeft}
	}
	inTime, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestSeveral)
	defer cancel()
	_ = each(inTime, found, func(i int, e Entry) error { // What fails is in the outcome.
		outcome, err := s.resolve(ctx, longestOfSeveral, Decision{pspConfirms: true, Decision: deadletters.Decision{
			DeadLetter: e.ID, Version: e.Version, Action: t.Action, Reason: reason, Actor: actor}})
		if err != nil { // A refusal that could not be audited is none, either.
			ran.Outcomes[i].Did = WasUnknown
			s.config.Log.WarnContext(ctx, "decision not known to be carried out",
				slog.String("dead_letter", e.ID.String()), slog.Any("error", err))
			return err
		}
		if outcome.Refused != nil {
			outcome.Entry = e
		}
		ran.Outcomes[i] = outcome
		return nil
	})
	return ran, nil
}

// Summary is one sentence about what came of a plan.
func (r Ran) Summary() string {
	return fmt.Sprintf("%d done, %d refused, %d not known, %d left.", r.Count(WasDone), r.Count(WasRefused),
		r.Count(WasUnknown), r.Count(WasLeft))
}
