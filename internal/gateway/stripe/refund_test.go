package stripe

import (
	"strings"
	"testing"

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
			gateway.Declined{Code: "charge_already_refunded"}},
		"too large": {answer{status: 400, body: problemOf("invalid_request_error", "", "")},
			gateway.Declined{Code: "declined"}},
	} {
		s := scripted(t, map[string][]answer{refundLine: {row.a}})
		if o := newClient(t, s.URL).Refund(t.Context(), aRefund()); o != row.want {
			t.Errorf("%s: outcome %T %+v", name, o, o)
		}
	}
	for reason, a := range map[string]answer{
		"answer malformed":         ok("{}"),
		"answer without a verdict": ok(refundIs("resting")),
		"PSP answered 401":         {status: 401, body: problemOf("invalid_request_error", "x", "")},
		"PSP answered 404":         {status: 404, body: problemOf("invalid_request_error", "x", "")},
		"PSP answered 400":         {status: 400, body: "<html>"},
		"PSP answered 402":         {status: 402, body: "<html>"},
		"PSP answered 302":         {status: 302, body: problemOf("invalid_request_error", "x", "")},
	} {
		s := scripted(t, map[string][]answer{refundLine: {a}})
		indeterminate(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), reason)
	}
}

func TestRefundOfSomethingElseIsAContradiction(t *testing.T) {
	t.Parallel()
	for reason, body := range map[string]string{
		"answer has another amount":    replace(refundIs("succeeded"), `"amount":500`, `"amount":501`),
		"answer has another charge":    replace(refundIs("succeeded"), `"pi_1"`, `"pi_2"`),
		"answer has another reference": replace(refundIs("pending"), `re_canary`, `re_other`),
		"answer has another key":       replace(refundIs("succeeded"), `"origin":"payonce",`, ``),
	} {
		s := scripted(t, map[string][]answer{refundLine: {ok(body)}})
		contradicts(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), reason)
	}
	s := scripted(t, map[string][]answer{refundLine: {{status: 400, body: problemOf("idempotency_error", "", "")}}})
	contradicts(t, newClient(t, s.URL).Refund(t.Context(), aRefund()), "PSP answered 400")
}

// On the first attempt, the saved 500 may be that of this very request, sent a second time by the network.
func TestSavedServerErrorOfARefundIsPassedOverOnlyByLaterAttempts(t *testing.T) {
	t.Parallel()
	saved := answer{status: 500, body: problemOf("api_error", "", ""), replayed: true}
	for attempt, sends := range map[int32]int{1: 1, 2: 2, 3: 2} {
		s := scripted(t, map[string][]answer{refundLine: {saved, ok(refundIs("succeeded"))}})
		r := aRefund()
		r.Attempt = attempt
		o := newClient(t, s.URL).Refund(t.Context(), r)
		if len(s.seen()) != sends || (o == gateway.Succeeded{ID: "re_1"}) != (sends == 2) {
			t.Errorf("attempt %d: %d sends, outcome %T %+v", attempt, len(s.seen()), o, o)
		}
	}
	fresh := saved
	fresh.replayed = false
	s := scripted(t, map[string][]answer{refundLine: {fresh, ok(refundIs("succeeded"))}})
	r := aRefund()
	r.Attempt = 2
	indeterminate(t, newClient(t, s.URL).Refund(t.Context(), r), "PSP answered 500")
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
	}
	form := refundForm(aRefund(), 500)
	for name, want := range map[string]string{"payment_intent": "pi_1", "amount": "500", "metadata[origin]": "payonce",
		"metadata[reference]": "re_canary", "metadata[idempotency_key]": key} {
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
