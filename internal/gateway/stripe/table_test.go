package stripe

import (
	"context"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// row is a cell of the table of all steps and answers: a step, an answer to it, the key at Stripe (K is ours, n the
// attempt), what is known then, whether it may be sent again, and what happens next. A "saved 500" is the answer of an
// earlier request under the same key. Why there are two steps: docs/adr/0049-make-the-object-then-execute-it.md.
type row struct{ step, answer, key, known, again, next string }

// The words of the table, each with what a program can see of it.
const (
	made      = "the intent, which has moved no money"
	moved     = "the money has moved"
	refused   = "declined"
	nothing   = "nothing was executed"
	over      = "it will never be executed"
	notKnown  = "not known"
	noMore    = "no"
	another   = "the next attempt, under its own key"
	harmless  = "yes, without harm"
	sameKey   = "the next attempt, under the same key"
	nextKey   = "a later attempt, under the next key"
	none      = "none"
	store     = "the caller stores its id, then confirms"
	finish    = "the outcome is final"
	release   = "the key is released"
	resolving = "read the intent, cancel it if it is not executed"
	ending    = "cancel it, if the caller allows that"
	wait      = "the lookup fails, and is repeated later"
	examine   = "judge the intent in the refusal"
	lookLater = "unknown: a lookup decides after the grace period"
)

func table() []row {
	return []row{
		{createStep, "200", "K.create.n", made, noMore, store},
		{createStep, "402", "K.create.n", refused, noMore, finish},
		{createStep, "400", "K.create.n", refused, noMore, finish},
		{createStep, "saved 500", "K.create.n", nothing, another, release},
		{createStep, "fresh 500", "K.create.n", nothing, another, release},
		{createStep, "409", "K.create.n", nothing, another, release},
		{createStep, "429", "K.create.n", nothing, another, release},
		{createStep, "lost", "K.create.n", nothing, another, release},
		{createStep, "not sent", "K.create.n", nothing, another, release},

		{confirmStep, "200", "K.confirm.n", moved, noMore, finish},
		{confirmStep, "402", "K.confirm.n", refused, noMore, finish},
		{confirmStep, "400", "K.confirm.n", notKnown, noMore, resolving},
		{confirmStep, "saved 500", "K.confirm.n", notKnown, noMore, resolving},
		{confirmStep, "fresh 500", "K.confirm.n", notKnown, noMore, resolving},
		{confirmStep, "409", "K.confirm.n", notKnown, noMore, resolving},
		{confirmStep, "429", "K.confirm.n", nothing, another, release},
		{confirmStep, "lost", "K.confirm.n", notKnown, noMore, resolving},
		{confirmStep, "not sent", "K.confirm.n", nothing, another, release},

		{"read", "200", none, made, harmless, ending},
		{"read", "402", none, notKnown, harmless, wait},
		{"read", "400", none, notKnown, harmless, wait},
		{"read", "saved 500", none, notKnown, harmless, wait},
		{"read", "fresh 500", none, notKnown, harmless, wait},
		{"read", "409", none, notKnown, harmless, wait},
		{"read", "429", none, notKnown, harmless, wait},
		{"read", "lost", none, notKnown, harmless, wait},
		{"read", "not sent", none, notKnown, harmless, wait},

		{"cancel", "200", none, over, harmless, release},
		{"cancel", "402", none, refused, harmless, examine},
		{"cancel", "400", none, moved, harmless, examine},
		{"cancel", "saved 500", none, notKnown, harmless, wait},
		{"cancel", "fresh 500", none, notKnown, harmless, wait},
		{"cancel", "409", none, notKnown, harmless, wait},
		{"cancel", "429", none, notKnown, harmless, wait},
		{"cancel", "lost", none, notKnown, harmless, wait},
		{"cancel", "not sent", none, notKnown, harmless, wait},

		{refundStep, "200", "K.refund", moved, noMore, finish},
		{refundStep, "402", "K.refund", refused, noMore, finish},
		{refundStep, "400", "K.refund", refused, noMore, finish},
		{refundStep, "saved 500", "K.refund", notKnown, nextKey, lookLater},
		{refundStep, "fresh 500", "K.refund", notKnown, sameKey, lookLater},
		{refundStep, "409", "K.refund", notKnown, sameKey, lookLater},
		{refundStep, "429", "K.refund", nothing, sameKey, release},
		{refundStep, "lost", "K.refund", notKnown, sameKey, lookLater},
		{refundStep, "not sent", "K.refund", nothing, sameKey, release},
	}
}

func TestTableIsWhatHappens(t *testing.T) {
	t.Parallel()
	for _, r := range table() {
		t.Run(r.step+" "+r.answer, func(t *testing.T) {
			t.Parallel()
			switch r.step {
			case createStep:
				createHolds(t, r)
			case confirmStep:
				confirmHolds(t, r)
			case "read", "cancel":
				lookupHolds(t, r)
			case refundStep:
				refundHolds(t, r)
			}
		})
	}
}

// answerOf is the scripted answer of a row.
func answerOf(r row) answer {
	switch r.answer {
	case "200":
		return ok(map[string]string{createStep: intentIs("requires_confirmation"), confirmStep: intentIs("succeeded"),
			"read": intentIs("requires_confirmation"), "cancel": intentIs("canceled"),
			refundStep: refundIs("succeeded")}[r.step])
	case "402":
		return answer{status: 402, body: problemOf("card_error", "card_declined", intentIs("declined"))}
	case "400":
		code, intent := "amount_too_small", ""
		if r.step == confirmStep || r.step == "cancel" {
			code, intent = "payment_intent_unexpected_state", intentIs("succeeded")
		}
		return answer{status: 400, body: problemOf("invalid_request_error", code, intent)}
	case "saved 500":
		return answer{status: 500, body: problemOf("api_error", "", ""), replayed: true}
	case "fresh 500":
		return answer{status: 500, body: problemOf("api_error", "", "")}
	case "409":
		return answer{status: 409, body: problemOf("idempotency_error", "idempotency_key_in_use", "")}
	case "429":
		return answer{status: 429, body: problemOf("invalid_request_error", "rate_limit", "")}
	}
	return answer{lost: true}
}

// clientOf is a client whose breaker is open if the row's request is not to be sent.
func clientOf(t *testing.T, r row, s *script) *Client {
	t.Helper()
	if r.answer != "not sent" || r.step == "read" {
		return newClient(t, s.URL)
	}
	c := newClient(t, s.URL, func(c *Config) { c.Limits.BreakerFailures, c.Limits.BreakerOpen = 1, time.Hour })
	s.answers["POST /v1/payment_intents/pi_trip/confirm"] = []answer{{lost: true}}
	s.answers["GET /v1/payment_intents/pi_trip"] = []answer{{status: 500}}
	trip := aCharge()
	trip.ObjectID = "pi_trip"
	c.Charge(t.Context(), trip)
	s.mu.Lock()
	s.calls = nil
	s.mu.Unlock()
	return c
}

func createHolds(t *testing.T, r row) {
	s := scripted(t, map[string][]answer{createLine: {answerOf(r)}})
	c := clientOf(t, r, s)
	ch := aCharge()
	ch.ObjectID = ""
	id, o := c.Prepare(t.Context(), ch)
	if r.known == made {
		if id != "pi_1" || o != nil {
			t.Fatalf("id %q, outcome %T %+v", id, o, o)
		}
	} else {
		knownIs(t, r, o)
	}
	sentAre(t, r, s, createLine)
}

func confirmHolds(t *testing.T, r row) {
	s := scripted(t, map[string][]answer{
		confirmLine: {answerOf(r)}, readLine: {ok(intentIs("requires_confirmation"))},
		cancelLine: {ok(intentIs("canceled"))},
	})
	o := clientOf(t, r, s).Charge(t.Context(), aCharge())
	if r.next == resolving {
		notExecuted(t, o, cancelled)
		sentAre(t, r, s, confirmLine, readLine, cancelLine)
		return
	}
	knownIs(t, r, o)
	sentAre(t, r, s, confirmLine)
}

func lookupHolds(t *testing.T, r row) {
	answers := map[string][]answer{readLine: {ok(intentIs("requires_confirmation"))},
		cancelLine: {ok(intentIs("canceled"))}}
	lines := []string{readLine, cancelLine}
	if r.step == "read" && r.answer != "200" {
		answers[readLine], lines = []answer{answerOf(r)}, []string{readLine}
	} else if r.step == "cancel" {
		answers[cancelLine] = []answer{answerOf(r)}
	}
	s := scripted(t, answers)
	c := clientOf(t, r, s)
	ctx := t.Context()
	if r.answer == "not sent" {
		lines = lines[:len(lines)-1]
		if r.step == "read" {
			ended, end := context.WithCancel(ctx)
			end()
			ctx = ended
		}
	}
	l := c.Lookup(ctx, aCharge(), gateway.EndUnsent)
	want := map[string]string{made: "lookup_ended", over: "lookup_ended", moved: "lookup_found",
		refused: "lookup_found", notKnown: "lookup_failed"}[r.known]
	if l.Label() != want {
		t.Fatalf("lookup %T %+v, want %s", l, l, want)
	}
	sentAre(t, r, s, lines...)
}

func refundHolds(t *testing.T, r row) {
	s := scripted(t, map[string][]answer{refundLine: {answerOf(r), ok(refundIs("succeeded"))}})
	o := clientOf(t, r, s).Refund(t.Context(), aRefund())
	knownIs(t, r, o)
	sentAre(t, r, s, refundLine)
	if r.again == nextKey {
		s = scripted(t, map[string][]answer{refundLine: {answerOf(r), ok(refundIs("succeeded"))}})
		again := aRefund()
		again.Attempt = 2
		if o := newClient(t, s.URL).Refund(t.Context(), again); o != (gateway.Succeeded{ID: "re_1"}) {
			t.Fatalf("outcome %T %+v", o, o)
		}
		if got := s.seen()[1].header.Get("Idempotency-Key"); got != key+".refund.2" {
			t.Fatalf("sent again under %q", got)
		}
	}
}

func knownIs(t *testing.T, r row, o gateway.Outcome) {
	t.Helper()
	want := map[string]string{moved: "succeeded", refused: "declined", nothing: "not_executed",
		notKnown: "indeterminate"}[r.known]
	if o == nil || o.Label() != want {
		t.Fatalf("outcome %T %+v, want %s", o, o, want)
	}
}

// sentAre checks that these requests were sent, each once, and the key of the row's step.
func sentAre(t *testing.T, r row, s *script, lines ...string) {
	t.Helper()
	if r.answer == "not sent" && r.step != "cancel" {
		lines = nil
	}
	if got := strings.Join(s.lines(), ", "); got != strings.Join(lines, ", ") {
		t.Fatalf("sent %s, want %s", got, strings.Join(lines, ", "))
	}
	for _, c := range s.seen() {
		want := map[string]string{createLine: key + ".create.1", confirmLine: key + ".confirm.1", refundLine: key +
			".refund"}[c.line]
		if got := c.header.Get("Idempotency-Key"); got != want {
			t.Fatalf("%s has the key %q, want %q", c.line, got, want)
		}
		if shown := strings.NewReplacer("K", key, ".n", ".1", none, "").Replace(r.key); c.line == lines[0] &&
			r.step != "cancel" &&
			shown != want {
			t.Fatalf("the table says %q, the key is %q", shown, want)
		}
	}
}
