package history

import (
	"fmt"
	"slices"
	"strconv"
)

// flaw is a promise that a server does not keep.
type flaw string

const (
	flawless        flaw = ""
	rebuildsAnswers flaw = "rebuilds the answer of a replay from the row"
	staleBusy       flaw = "says busy out of a cache"
	staleAccepted   flaw = "says 202 out of a cache"
	alwaysFirst     flaw = "calls every replay the first"
	noFingerprint   flaw = "replays without a look at the fingerprint"
	mismatchesSame  flaw = "fingerprints the spelling"
	newPayment      flaw = "makes a payment for each attempt"
	executesAgain   flaw = "executes again when the lease is over, and overwrites the answer"
	noFence         flaw = "writes without the fence"
	forgetsEnd      flaw = "leaves a released key in progress"
)

// server keeps one key as internal/idempotency does, step by step, at the mercy of a schedule.
type server struct {
	flaw flaw
	draw func(n int) int // from 0 to n-1

	now      int
	status   string // "", in_progress, unknown, failed, completed
	intent   string
	attempt  int
	subject  string
	charges  int    // how many times the PSP has really charged
	answer   string // the charge that the stored answer names
	begun    int    // payments
	requests []*request
	history  []Operation
}

// request is a request that is under way.
type request struct {
	client, called int
	intent         string
	attempt        int // that it owns; 0 for none
	sent           bool
	charge         string
}

// play lets clients ask and things happen, and returns what the clients saw.
func play(f flaw, steps int, draw func(int) int) []Operation {
	s := &server{flaw: f, draw: draw}
	for range steps {
		s.now++
		switch action := draw(10); {
		case action < 3 && len(s.requests) < 5:
			s.requests = append(s.requests, &request{client: s.draw(4), called: s.now,
				intent: [...]string{"A", "A", "A", "B"}[s.draw(4)]})
		case action < 8 && len(s.requests) > 0:
			s.advance(s.requests[s.draw(len(s.requests))])
		default:
			s.reconcile()
		}
	}
	for _, fl := range s.requests {
		s.history = append(s.history, unheard(fl.client, fl.called, fl.intent))
	}
	return s.history
}

// reconcile is what the sweeper, webhooks and lookups do.
func (s *server) reconcile() {
	switch {
	case s.status == "in_progress" && s.draw(3) == 0:
		s.status = "unknown"
		if s.flaw == executesAgain {
			s.status = "failed"
		}
	case s.charges > 0 && (s.status == "unknown" || s.status == "failed"):
		s.status, s.answer = "completed", "ch_1"
	case s.status == "unknown":
		s.status = "failed"
	}
}

// advance takes a request one step further.
func (s *server) advance(fl *request) {
	at := span{fl.called, s.now}
	switch {
	case fl.attempt == 0:
		s.arrive(fl, at)
	case !fl.sent:
		fl.sent = true
		outcome := s.draw(4)
		if s.flaw != executesAgain && (s.attempt != fl.attempt || s.status == "failed") {
			outcome = 0 // it has been paused for longer than it may, and knows
		}
		switch outcome {
		case 0: // proven not executed
			if s.owns(fl) || s.flaw == noFence {
				if s.flaw != forgetsEnd {
					s.status = "failed"
				}
				s.end(fl, at.released(fl.client, s.subject))
			} else {
				s.answerFromRow(fl, at)
			}
		case 1: // the answer is lost, and perhaps the charge was made
			s.charges += s.draw(2)
			if s.owns(fl) || s.flaw == noFence {
				s.status = "unknown"
			}
			s.end(fl, at.accepted(fl.client, fl.intent, s.subject))
		default:
			s.charges++
			fl.charge = "ch_1"
			if s.flaw == executesAgain {
				fl.charge = "ch_" + strconv.Itoa(s.charges)
			}
		}
	case s.owns(fl) || s.flaw == executesAgain || s.status == "unknown" || s.status == "failed":
		s.status, s.answer = "completed", fl.charge
		s.end(fl, at.done(fl.client, fl.intent, s.subject, s.answer, false))
	default:
		s.answerFromRow(fl, at)
	}
}

func (s *server) owns(fl *request) bool { return s.status == "in_progress" && s.attempt == fl.attempt }

// answerFromRow answers an owner that was overtaken.
func (s *server) answerFromRow(fl *request, at span) {
	if s.status == "completed" {
		s.end(fl, at.done(fl.client, fl.intent, s.subject, s.answer, s.attempt != fl.attempt))
		return
	}
	s.end(fl, at.accepted(fl.client, fl.intent, s.subject))
}

func (s *server) arrive(fl *request, at span) {
	same := fl.intent == s.intent || s.flaw == noFingerprint
	if s.flaw == mismatchesSame && s.draw(4) == 0 {
		same = false
	}
	stale := s.status == "completed" && s.draw(3) == 0
	switch {
	case s.draw(12) == 0 && s.status == "":
		s.end(fl, at.released(fl.client, "").with(func(o *Operation) { o.Intent = fl.intent }))
	case s.draw(12) == 0:
		s.end(fl, at.storeAway(fl.client).with(func(o *Operation) { o.Intent = fl.intent }))
	case s.status == "":
		s.status, s.intent = "in_progress", fl.intent
		s.take(fl)
	case !same:
		s.end(fl, at.misuse(fl.client, fl.intent))
	case s.status == "in_progress", stale && s.flaw == staleBusy:
		s.end(fl, at.busy(fl.client).with(func(o *Operation) {
			o.Intent = fl.intent
			o.Answer = fmt.Appendf(nil, `{"status":409,"code":"idempotency_key_in_progress","paymentId":%q}`, s.subject)
		}))
	case s.status == "unknown", stale && s.flaw == staleAccepted:
		s.end(fl, at.accepted(fl.client, fl.intent, s.subject))
	case s.status == "failed":
		s.status = "in_progress"
		s.take(fl)
	default:
		answer := s.answer
		if s.flaw == rebuildsAnswers {
			answer += " rebuilt"
		}
		s.end(fl, at.done(fl.client, fl.intent, s.subject, answer, s.flaw != alwaysFirst))
	}
}

func (s *server) take(fl *request) {
	s.attempt++
	fl.attempt = s.attempt
	if s.subject == "" || s.flaw == newPayment {
		s.begun++
		s.subject = fmt.Sprintf("pay_%026d", s.begun)
	}
}

// end gives the answer, unless the client has gone.
func (s *server) end(fl *request, o Operation) {
	s.requests = slices.DeleteFunc(s.requests, func(other *request) bool { return other == fl })
	if o.Intent != fl.intent {
		o = o.with(func(o *Operation) { o.Intent = fl.intent })
	}
	if s.draw(8) == 0 {
		o = unheard(fl.client, fl.called, fl.intent)
	}
	s.history = append(s.history, o)
}
