package stripe

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payonce/internal/gateway"
)

func TestRefundIsJudgedByItsStatus(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		a    answer
		want gateway.Outcome
	}{
		"succeeded":       {ok(refundIs("succeeded")), gateway.Succeeded{ID: "re_1"}},
		"pending":         {ok(refundIs("pending")), gateway.Pending{Reason: "pending"}},
		"requires_action": {ok(refundIs("requires_action")), gateway.Pending{Reason: "requires_action"}},
		"canceled":        {ok(refundIs("canceled")), gateway.Declined{ID: "re_1", Code: "canceled"}},
		"failed": {ok(replace(refundIs("failed"), `"object"`, `"failure_reason":"insufficient_funds","object"`)),
			gateway.Declined{ID: "re_1", Code: "insufficient_funds"}},
		"refunded before": {answer{status: 400, body: problemOf("invalid_request_error", "charge_already_refunded",
			"")},
			gateway.Declined{Code: gateway.AlreadyMoved}},
		"disputed": {answer{status: 400, body: problemOf("invalid_request_error", "charge_disputed", "")},
			gateway.Declined{Code: gateway.AlreadyMoved}},
		"disputed, by its newer code": {answer{status: 400, body: problemOf("invalid_request_error",
			"refund_disputed_payment", "")}, gateway.Declined{Code: gateway.AlreadyMoved}},
		"too large": {answer{status: 400, body: `{"error":{"type":"invalid_request_error","param":"amount"}}`},
			gateway.Declined{Code: gateway.AlreadyMoved}},
		"too large, by its code": {answer{status: 400,
			body: problemOf("invalid_request_error", "amount_too_large", "")},
			gateway.Declined{Code: gateway.AlreadyMoved}},
		"too small": {answer{status: 400, body: problemOf("invalid_request_error", "amount_too_small", "")},
			gateway.Declined{Code: "amount_too_small"}},
		"refused by a bank": {answer{status: 402, body: problemOf("card_error", "card_declined", "")},
			gateway.Declined{Code: "card_declined"}},
	} {
		s := scripted(t, map[string][]answer{refundLine: {row.a}})
		if o := newClient(t, s.URL).Refund(t.Context(), aRefund()); o != row.want {
			t.Errorf("%s: outcome %T %+v", name, o, o)
		}
	}
	for reason, a := range map[string]answer{
		"connection lost":          {lost: true},
		"answer without a verdict": ok(refundIs("resting")),
		"PSP answered 401":         {status: 401, body: problemOf("invalid_request_error", "x", "")},
		"PSP answered 404":         {status: 404, body: problemOf("invalid_request_error", "x", "")},
		"PSP answered 400":         {status: 400, body: "<html>"},
		"PSP answered 402":         {status: 402, body: "<html>"},
		"PSP answered 302":         {status: 302, body: problemOf("invalid_request_error", "x", "")},
		"PSP answered 403":         {status: 403, body: problemOf("invalid_request_error", "charge_disputed", "")},
	} {
		s := scripted(t, map[string][]answer{refundLine: {a}})
		indeterminate(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), reason)
	}
	for _, malformed := range []string{
		"{}", replace(refundIs("succeeded"), `"usd"`, `"USD"`), replace(refundIs("succeeded"), `"refund"`, `"charge"`),
		replace(refundIs("succeeded"), `"status"`, `"status":"failed","status"`),
	} {
		s := scripted(t, map[string][]answer{refundLine: {ok(malformed)}})
		indeterminate(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), "answer malformed")
	}
}

func TestRefundOfSomethingElseIsAContradiction(t *testing.T) {
	t.Parallel()
	for reason, body := range map[string]string{
		"answer has another amount":    replace(refundIs("succeeded"), `"amount":500`, `"amount":501`),
		"answer has another charge":    replace(refundIs("succeeded"), `"pi_1"`, `"pi_2"`),
		"answer has another reference": replace(refundIs("pending"), `re_canary`, `re_other`),
		"answer has another key":       replace(refundIs("succeeded"), `"origin":"payonce:here",`, ``),
	} {
		s := scripted(t, map[string][]answer{refundLine: {ok(body)}})
		contradicts(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), reason)
	}
	// A record of ours would call it declined, and an operator would take the money for not moved.
	s := scripted(t, map[string][]answer{refundLine: {ok(replace(refundIs("pending"), `re_canary`, `re_other`))}})
	evidence := contradicts(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), "answer has another reference")
	if strings.Contains(evidence, "declined") || !strings.Contains(evidence, `"status":"pending"`) {
		t.Fatalf("evidence %s", evidence)
	}
	// Of a final one, the record says whether money has moved.
	s = scripted(t, map[string][]answer{refundLine: {ok(replace(refundIs("succeeded"), `re_canary`, `re_other`))}})
	evidence = contradicts(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), "answer has another reference")
	if !strings.Contains(evidence, `"chargeId":"pi_1"`) || strings.Contains(evidence, "payment_intent") {
		t.Fatalf("evidence %s", evidence)
	}
	s = scripted(t, map[string][]answer{refundLine: {{status: 400, body: problemOf("idempotency_error", "", "")}}})
	contradicts(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), "PSP answered 400")
	// The same refund, which is still being executed: https://docs.stripe.com/error-low-level#idempotency
	s = scripted(t, map[string][]answer{refundLine: {{status: 409, body: problemOf("idempotency_error", "", "")}}})
	indeterminate(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), "PSP answered 409")
}

// A 400 is final only if it is about the refund itself. Our account or our program may be put right.
func TestRefusalThatIsNotAboutTheRefundIsNotFinal(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		problemOf("invalid_request_error", "", ""), problemOf("invalid_request_error", "parameter_unknown", ""),
		problemOf("invalid_request_error", "livemode_mismatch", ""), problemOf("api_error", "charge_disputed", ""),
		`{"error":{"type":"invalid_request_error","code":"resource_missing","param":"payment_intent"}}`,
	} {
		s := scripted(t, map[string][]answer{refundLine: {{status: 400, body: body}}})
		indeterminate(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), "PSP answered 400")
	}
}

// Alone it is none. A later attempt is refused because an earlier one, which ended with a 500, was executed later. Or
// it is refused for good, and so is each further one. What the refunds of the charge say decides.
func TestRefusalOfALaterAttemptIsNoVerdict(t *testing.T) {
	t.Parallel()
	saved := answer{status: 500, body: problemOf("api_error", "", ""), replayed: true}
	others := replace(replace(refundIs("succeeded"), `re_canary`, `re_other`), `canary-key`, `other-key`)
	for code, status := range map[string]int{"charge_already_refunded": 400, "amount_too_large": 400,
		"card_declined": 402} {
		kind := map[int]string{400: "invalid_request_error", 402: "card_error"}[status]
		refusal, told := answer{status: status, body: problemOf(kind, code, "")}, code
		if status == 400 {
			told = gateway.AlreadyMoved
		}
		for name, row := range map[string]struct {
			list answer
			want gateway.Outcome
		}{
			"executed":   {ok(listOf(false, refundIs("succeeded"))), gateway.Succeeded{ID: "re_1"}},
			"failed":     {ok(listOf(false, refundIs("failed"))), gateway.Declined{ID: "re_1", Code: "failed"}},
			"waits":      {ok(listOf(false, refundIs("pending"))), gateway.Pending{Reason: "pending"}},
			"others":     {ok(listOf(false, others)), gateway.Declined{Code: told}},
			"none":       {ok(listOf(false)), gateway.Declined{Code: told}},
			"unreadable": {ok("{"), nil},
			"lost":       {answer{lost: true}, nil},
		} {
			s := scripted(t, map[string][]answer{refundLine: {saved, refusal}, refundsLine: {row.list}})
			o := newClient(t, s.URL).Refund(t.Context(), refundTried(2))
			if row.want == nil {
				indeterminate(t, o, answered(status))
			} else if o != row.want {
				t.Errorf("%s, %s: outcome %T %+v", code, name, o, o)
			}
		}
	}
	// Two refunds under one key are a contradiction, which nothing but a lookup tells record by record.
	s := scripted(t, map[string][]answer{refundLine: {{status: 402, body: problemOf("card_error", "x", "")}},
		refundsLine: {ok(listOf(false, refundIs("succeeded"), replace(refundIs("succeeded"), "re_1", "re_2")))}})
	indeterminate(t, newClient(t, s.URL).Refund(t.Context(), refundTried(2)), answered(402))
}

// keeper is a server that keeps the first result under each key, as Stripe does.
type keeper struct {
	*httptest.Server
	mu     sync.Mutex
	fails  map[string]bool // the keys whose execution ends with a 500
	loses  map[string]bool // the keys whose next request arrives only when it is sent again by late
	kept   map[string]int  // the status under each key
	sent   []string        // the keys of all requests, in order
	refund int             // how often money was given back
}

func newKeeper(t *testing.T, fails ...string) *keeper {
	t.Helper()
	k := &keeper{fails: map[string]bool{}, loses: map[string]bool{}, kept: map[string]int{}}
	for _, key := range fails {
		k.fails[key] = true
	}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		k.mu.Lock()
		k.sent = append(k.sent, key)
		lost := k.loses[key]
		delete(k.loses, key)
		k.mu.Unlock()
		if lost {
			panic(http.ErrAbortHandler)
		}
		status, saved := k.arrive(key)
		if saved {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = io.WriteString(w, refundIs("succeeded"))
		} else {
			_, _ = io.WriteString(w, problemOf("api_error", "", ""))
		}
	}))
	t.Cleanup(k.Close)
	return k
}

// arrive is a request under a key that has reached Stripe.
func (k *keeper) arrive(key string) (status int, saved bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if status, saved = k.kept[key]; saved {
		return status, true
	}
	status = http.StatusOK
	if k.fails[key] {
		status = http.StatusInternalServerError
	} else {
		k.refund++
	}
	k.kept[key] = status
	return status, false
}

func refundTried(attempt int32) gateway.Refund {
	r := aRefund()
	r.Attempt = attempt
	return r
}

// The second attempt's request under its own key is on its way for longer than the grace period. If the third attempt
// had a key of its own, both would give money back.
func TestLateSendOfARefundGivesNothingBackTwice(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, key+".refund")
	c := newClient(t, k.URL)
	indeterminate(t, c.Refund(t.Context(), refundTried(1)), "PSP answered 500")
	k.loses[key+".refund.2"] = true
	indeterminate(t, c.Refund(t.Context(), refundTried(2)), "connection lost")
	if o := c.Refund(t.Context(), refundTried(3)); o != (gateway.Succeeded{ID: "re_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
	k.arrive(key + ".refund.2")
	if k.refund != 1 {
		t.Fatalf("%d refunds, sent under %q", k.refund, k.sent)
	}
}

// The answer to the first attempt was lost. Stripe says again what it has saved, which is a success.
func TestSavedSuccessOfARefundIsNotPassedOver(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.arrive(key + ".refund")
	o := newClient(t, k.URL).Refund(t.Context(), refundTried(2))
	if o != (gateway.Succeeded{ID: "re_1"}) || k.refund != 1 {
		t.Fatalf("%d refunds, sent under %q, outcome %T %+v", k.refund, k.sent, o, o)
	}
}

// All attempts try the same keys in the same order. On the first attempt, the saved 500 may be that of this very
// request, sent a second time by the network.
func TestRefundPassesOverSavedServerErrorsInAFixedOrder(t *testing.T) {
	t.Parallel()
	one, two, three := key+".refund", key+".refund.2", key+".refund.3"
	for attempt, row := range map[int32]struct {
		saved []string // the keys with a saved 500
		want  []string
		gives bool
	}{
		1: {[]string{one}, []string{one}, false},
		2: {[]string{one}, []string{one, two}, true},
		3: {[]string{one}, []string{one, two}, true},
		4: {[]string{one, two}, []string{one, two, three}, true},
		5: {nil, []string{one}, true},
	} {
		k := newKeeper(t, row.saved...)
		for _, key := range row.saved {
			k.arrive(key)
		}
		o := newClient(t, k.URL).Refund(t.Context(), refundTried(attempt))
		if !slices.Equal(k.sent, row.want) || (o == gateway.Succeeded{ID: "re_1"}) != row.gives {
			t.Errorf("attempt %d: sent under %q, outcome %T %+v", attempt, k.sent, o, o)
		}
	}
	k := newKeeper(t, one)
	indeterminate(t, newClient(t, k.URL).Refund(t.Context(), refundTried(2)), "PSP answered 500")
	if len(k.sent) != 1 {
		t.Fatalf("a fresh 500 is passed over: %q", k.sent)
	}
}

// Each request is answered just in time. Without a common deadline, ten of them would take ten times as long.
func TestPassingOverTakesNoLongerThanTwoRequests(t *testing.T) {
	t.Parallel()
	const total = time.Second
	s := scripted(t, nil)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(total * 8 / 10):
		case <-r.Context().Done():
		}
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(http.StatusInternalServerError)
	})
	began := time.Now()
	newClient(t, s.URL, func(c *Config) { c.Limits.Total = total }).Refund(t.Context(), refundTried(10))
	if took := time.Since(began); took > total*4 {
		t.Fatalf("it took %s", took)
	}
}

func TestReasonIsStripesOrAMark(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string][2]string{
		"duplicate": {"duplicate", ""}, "fraudulent": {"fraudulent", ""},
		"requested_by_customer": {"requested_by_customer", ""},
		"too small":             {"", "too small"}, "": {"", ""},
		strings.Repeat("ü", 600): {"", strings.Repeat("ü", 500)},
	} {
		r := aRefund()
		r.Reason = reason
		form := refundForm(r, 500)
		if form.Get("reason") != want[0] || form.Get("metadata[reason]") != want[1] {
			t.Errorf("%.20q: %v", reason, form)
		}
		if form.Has("reason") != (want[0] != "") || form.Has("metadata[reason]") != (want[1] != "") {
			t.Errorf("%.20q: an empty reason is sent: %v", reason, form)
		}
	}
	s := scripted(t, map[string][]answer{refundLine: {ok(refundIs("succeeded"))}})
	newClient(t, s.URL).Refund(t.Context(), aRefund())
	form := s.seen()[0].form
	for name, want := range map[string]string{"payment_intent": "pi_1", "amount": "500",
		"metadata[origin]": "payonce:here", "metadata[reference]": "re_canary", "metadata[idempotency_key]": key} {
		if form.Get(name) != want {
			t.Errorf("%s is %q", name, form.Get(name))
		}
	}
}

func TestRefundThatStripeCannotCountIsNotSent(t *testing.T) {
	t.Parallel()
	r := aRefund()
	r.Currency = "MGA"
	r.AmountMinor = 150
	if o := newClient(t, scripted(t, nil).URL).Refund(t.Context(), r); o != (gateway.Declined{Code: "invalid_amount"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}
