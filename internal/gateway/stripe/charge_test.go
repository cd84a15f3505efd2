package stripe

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

func TestPreparedChargeIsMadeWithOurMarksAndNotConfirmed(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{createLine: {ok(intentIs("requires_confirmation"))}})
	ch := aCharge()
	ch.ObjectID, ch.Attempt = "", 3
	if id, o := newClient(t, s.URL).Prepare(t.Context(), ch); id != "pi_1" || o != nil {
		t.Fatalf("id %q, outcome %+v", id, o)
	}
	got := s.seen()[0]
	for name, want := range map[string]string{
		"amount": "12000", "currency": "usd", "payment_method": "pm_canary", "confirm": "false",
		"automatic_payment_methods[enabled]": "true", "automatic_payment_methods[allow_redirects]": "never",
		"capture_method": "automatic", "metadata[origin]": "payonce:here", "metadata[reference]": "pay_canary",
		"metadata[idempotency_key]": key, "description": "",
	} {
		if got.form.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.form.Get(name), want)
		}
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + secret, "Stripe-Version": "2026-02-25.clover", "Stripe-Account": "acct_canary",
		"Idempotency-Key": key + ".create.3", "Content-Type": "application/x-www-form-urlencoded",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
}

// While the database has not told who we are, nothing is made, ended, or called foreign.
func TestUnknownInstallationMakesAndJudgesNothing(t *testing.T) {
	t.Parallel()
	s := scripted(t, nil)
	c := newClient(t, s.URL, func(c *Config) { c.Installation = func() string { return "" } })
	_, o := c.Prepare(t.Context(), aCharge())
	notExecuted(t, o, "request could not be built")
	notExecuted(t, c.Refund(t.Context(), aRefund()), "request could not be built")
	if l := c.Lookup(t.Context(), aCharge(), gateway.EndUnsent); l != (gateway.LookupFailed{
		Reason: "the id of this installation is not known yet", NotAsked: true}) {
		t.Errorf("lookup %T %+v", l, l)
	}
	for _, object := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
		if page, err := c.List(t.Context(), object, "acct_canary", today(), ""); err == nil {
			t.Errorf("list of %ss: %+v", object, page)
		}
	}
	if err := c.Statement(t.Context(), "acct_canary", today().AddDate(0, 0, -2), nil); err == nil {
		t.Error("there is a statement")
	}
	e, err := c.ParseEvent([]byte(eventOf("payment_intent.succeeded", intentIs("succeeded"))))
	if err == nil || errors.Is(err, gateway.ErrPayload) {
		t.Errorf("event %+v, %v", e, err) // The stored event is read again later.
	}
}

func TestDefaultAccountHasNoHeader(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{readLine: {ok(intentIs("canceled"))}})
	ch := aCharge()
	ch.Account = DefaultAccount
	newClient(t, s.URL).Lookup(t.Context(), ch, gateway.EndUnsent)
	if values, there := s.seen()[0].header["Stripe-Account"]; there {
		t.Fatalf("Stripe-Account is %q", values)
	}
}

// Go cuts off spaces around a header, and the request would be about another account.
func TestAccountThatIsNoneIsNotAskedFor(t *testing.T) {
	t.Parallel()
	s := scripted(t, nil)
	c := newClient(t, s.URL)
	for _, account := range []string{"", " acct_canary", "acct_canary ", "acct canary"} {
		ch := aCharge()
		ch.Account = account
		notExecuted(t, c.Charge(t.Context(), ch), "request could not be built")
		if l := c.Lookup(t.Context(), ch, gateway.EndNothing); l != (gateway.LookupFailed{Reason: "no such account"}) {
			t.Errorf("%q: lookup %T %+v", account, l, l)
		}
	}
}

func TestLongKeyIsHashedBeforeTheSuffix(t *testing.T) {
	t.Parallel()
	one, two := strings.Repeat("k", 254)+"1", strings.Repeat("k", 254)+"2"
	for _, step := range []string{createStep, confirmStep} {
		a, b := stepKey(one, step, 12), stepKey(two, step, 12)
		if len(a) > longestKey || a == b || !strings.HasSuffix(a, "."+step+".12") {
			t.Errorf("keys %q and %q", a, b)
		}
	}
}

func TestRefusedCreationDeclinesOnlyWhatIsAboutTheCharge(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
		want   gateway.Outcome
	}{
		"no such method": {400,
			`{"error":{"type":"invalid_request_error","code":"resource_missing","param":"payment_method"}}`,
			gateway.Declined{Code: "resource_missing"}},
		"a currency without a code": {400, `{"error":{"type":"invalid_request_error","param":"currency"}}`,
			gateway.Declined{Code: "invalid_currency"}},
		"an expired key": {400, problemOf("invalid_request_error", "api_key_expired", ""),
			gateway.NotExecuted{Reason: "PSP answered 400"}},
		"an error of another type": {400, `{"error":{"type":"api_error","param":"amount"}}`,
			gateway.NotExecuted{Reason: "PSP answered 400"}},
		"a proxy": {402, "<html>", gateway.NotExecuted{Reason: "PSP answered 402"}},
		"a card that is declined": {402, problemOf("card_error", "expired_card", ""),
			gateway.Declined{Code: "expired_card"}},
		"a 402 that is about no card": {402, problemOf("api_error", "expired_card", ""),
			gateway.NotExecuted{Reason: "PSP answered 402"}},
		"a card, and an error of the PSP": {500, problemOf("card_error", "expired_card", ""),
			gateway.NotExecuted{Reason: "PSP answered 500"}},
		"not authorized": {401, problemOf("invalid_request_error", "amount_too_small", ""),
			gateway.NotExecuted{Reason: "PSP answered 401"}},
		"malformed": {200, "{}", gateway.NotExecuted{Reason: "answer malformed"}},
		"without the method": {200, intentIs("requires_payment_method"),
			gateway.NotExecuted{Reason: "the PSP has not taken the payment method"}},
		"cancelled since then": {200, intentIs("canceled"), gateway.NotExecuted{Reason: cancelled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted(t, map[string][]answer{createLine: {{status: row.status, body: row.body}}})
			if id, o := newClient(t, s.URL).Prepare(t.Context(), aCharge()); id != "" || o != row.want {
				t.Fatalf("id %q, outcome %T %+v, want %+v", id, o, o, row.want)
			}
		})
	}
}

// No intent was stored, so nothing can have been executed, whatever became of the creation. What Stripe can never take
// is a decline, without a request.
func TestPreparationWithoutAnIntentHasExecutedNothing(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{createLine: {{lost: true}}})
	c := newClient(t, s.URL)
	_, o := c.Prepare(t.Context(), aCharge())
	notExecuted(t, o, "connection lost")
	nowhere := aCharge()
	nowhere.Account = "acct canary"
	_, o = c.Prepare(t.Context(), nowhere)
	notExecuted(t, o, "request could not be built")
	tooLarge := aCharge()
	tooLarge.AmountMinor = 1 << 62
	if _, o := c.Prepare(t.Context(), tooLarge); o != (gateway.Declined{Code: "invalid_amount"}) {
		t.Errorf("outcome %T %+v", o, o)
	}
	if n := len(s.seen()); n != 1 {
		t.Errorf("%d requests, want the lost one", n)
	}
}

func TestCreatedIntentOfSomethingElseIsAContradiction(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"answer has another amount":    replace(intentIs("requires_confirmation"), "12000", "12001"),
		"answer has another reference": replace(intentIs("requires_confirmation"), "pay_canary", "pay_other"),
		"answer has another key":       replace(intentIs("requires_confirmation"), `"origin":"payonce:here",`, ""),
		"answer has another currency":  replace(intentIs("requires_confirmation"), `"usd"`, `"eur"`),
	}
	bodies["answer has an intent with the status requires_payment_method"] = intentIs("declined")
	for _, status := range []string{"succeeded", "processing", "requires_action"} {
		bodies["answer has an intent with the status "+status] = intentIs(status)
	}
	for reason, body := range bodies {
		s := scripted(t, map[string][]answer{createLine: {ok(body)}})
		id, o := newClient(t, s.URL).Prepare(t.Context(), aCharge())
		if contradicts(t, o, reason); id != "" {
			t.Errorf("%s: and the id %q", reason, id)
		}
	}
}

// The caller may still have the intent of an earlier attempt, which was cancelled.
func TestNextAttemptMakesAnotherIntent(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{createLine: {ok(replace(intentIs("requires_confirmation"), "pi_1", "pi_2"))}})
	ch := aCharge()
	ch.Attempt = 2
	if id, o := newClient(t, s.URL).Prepare(t.Context(), ch); id != "pi_2" || o != nil {
		t.Fatalf("id %q, outcome %+v", id, o)
	}
}

func TestChargeWithoutAnIntentIsNotSent(t *testing.T) {
	t.Parallel()
	s := scripted(t, nil)
	ch := aCharge()
	ch.ObjectID = ""
	notExecuted(t, newClient(t, s.URL).Charge(t.Context(), ch), "there is no intent to confirm")
}

// The caller is told what the intent says, whatever became of the confirmation's answer.
func TestLostConfirmationIsReadNotGuessed(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]gateway.Outcome{
		"succeeded":        gateway.Succeeded{ID: "pi_1"},
		"declined":         gateway.Declined{ID: "pi_1", Code: "insufficient_funds"},
		"canceled":         gateway.NotExecuted{Reason: cancelled},
		"processing":       gateway.Pending{Reason: "processing"},
		"requires_action":  gateway.Pending{Reason: "requires_action"},
		"requires_capture": gateway.Indeterminate{Reason: "connection lost"},
	} {
		s := scripted(t, map[string][]answer{confirmLine: {{lost: true}}, readLine: {ok(intentIs(status))}})
		o := newClient(t, s.URL).Charge(t.Context(), aCharge())
		if got, ok := o.(gateway.Indeterminate); ok && !got.Contradiction {
			indeterminate(t, o, want.(gateway.Indeterminate).Reason)
		} else if o != want {
			t.Errorf("%s: outcome %T %+v", status, o, o)
		}
		if got := s.lines(); !slices.Equal(got, []string{confirmLine, readLine}) {
			t.Errorf("%s: sent %q", status, got)
		}
	}
}

// A cancel that is refused tells what the intent is by then.
func TestRefusedCancelIsJudged(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]gateway.Outcome{
		"succeeded":  gateway.Succeeded{ID: "pi_1"},
		"canceled":   gateway.NotExecuted{Reason: cancelled},
		"processing": gateway.Pending{Reason: "processing"},
		"declined":   gateway.Declined{ID: "pi_1", Code: "insufficient_funds"},
	} {
		s := scripted(t, map[string][]answer{
			confirmLine: {{lost: true}}, readLine: {ok(intentIs("requires_confirmation"))},
			cancelLine: {{status: 400, body: problemOf("invalid_request_error", "payment_intent_unexpected_state",
				intentIs(status))}},
		})
		if o := newClient(t, s.URL).Charge(t.Context(), aCharge()); o != want {
			t.Errorf("%s: outcome %T %+v", status, o, o)
		}
	}
}

// A cancel proves nothing unless the answer says that the intent is cancelled.
func TestCancelWithoutAnAnswerProvesNothing(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]answer{
		"lost": {lost: true}, "500": {status: 500, body: problemOf("api_error", "", intentIs("canceled"))},
		"429":                {status: 429, body: problemOf("invalid_request_error", "rate_limit", "")},
		"200, not cancelled": ok(intentIs("requires_confirmation")),
		"200, malformed":     ok(`{"id":"pi_1"}`),
		"400 without intent": {status: 400, body: problemOf("invalid_request_error", "x", "")},
		"400, not cancelled": {status: 400, body: problemOf("invalid_request_error", "x",
			intentIs("requires_confirmation"))},
	} {
		s := scripted(t, map[string][]answer{
			confirmLine: {{status: 500}}, readLine: {ok(intentIs("requires_confirmation"))}, cancelLine: {a},
		})
		t.Run(name, func(t *testing.T) {
			indeterminate(t, newClient(t, s.URL).Charge(t.Context(), aCharge()), "PSP answered 500")
		})
	}
}

func TestCancelSaysWhyNothingIsKnown(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]wire.Reply{
		"no place":         {NotSent: "no place"},
		"connection lost":  {Lost: "connection lost"},
		"PSP answered 400": {Status: 400, Body: []byte(problemOf("invalid_request_error", "x", ""))},
	} {
		if f := judgeCancel(aCharge(), r); f.state != unclear || f.reason != want {
			t.Errorf("%s: finding %+v", want, f)
		}
	}
}

func TestConfirmationOfSomethingElseIsAContradictionWithOurRecord(t *testing.T) {
	t.Parallel()
	for reason, body := range map[string]string{
		"answer has another amount": replace(intentIs("succeeded"), `"amount_received":12000`,
			`"amount_received":11999`),
		"answer has another currency":  replace(intentIs("succeeded"), `"usd"`, `"eur"`),
		"answer has another reference": replace(intentIs("succeeded"), `pay_canary`, `pay_other`),
		"answer has another key":       replace(intentIs("succeeded"), key, key+".g2"),
		"answer has another id":        replace(intentIs("succeeded"), `"pi_1"`, `"pi_2"`),
	} {
		s := scripted(t, map[string][]answer{confirmLine: {ok(body)}})
		evidence := contradicts(t, newClient(t, s.URL).Charge(t.Context(), aCharge()), reason)
		var kept struct{ Answer json.RawMessage }
		if err := json.Unmarshal([]byte(evidence), &kept); err != nil {
			t.Fatal(err)
		}
		if r, err := gateway.ParseRecord(kept.Answer); err != nil || !r.Executed() {
			t.Errorf("%s: the evidence is no record of ours: %v, %s", reason, err, evidence)
		}
	}
}

// A record of ours would call it declined.
func TestContradictionWithoutAVerdictHasTheAnswerAsEvidence(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{confirmLine: {ok(replace(intentIs("processing"), "12000", "12001"))}})
	evidence := contradicts(t, newClient(t, s.URL).Charge(t.Context(), aCharge()), "answer has another amount")
	if !strings.Contains(evidence, `"status":"processing"`) || !strings.Contains(evidence, "redacted") {
		t.Fatalf("evidence %s", evidence)
	}
}

// A mark is missing: somebody else has made the intent.
func TestConfirmationOfAForeignIntentIsAContradiction(t *testing.T) {
	t.Parallel()
	foreign := replace(intentIs("succeeded"), `"origin":"payonce:here",`, ``)
	s := scripted(t, map[string][]answer{confirmLine: {ok(foreign)}})
	contradicts(t, newClient(t, s.URL).Charge(t.Context(), aCharge()), "answer has another key")
}

func TestDeclineIsBelievedOnlyOfThisIntent(t *testing.T) {
	t.Parallel()
	decline := `{"error":{"type":"card_error","code":"card_declined","decline_code":"lost_card","payment_intent":` +
		intentIs("declined") + `}}`
	for name, row := range map[string]struct {
		body string
		want gateway.Outcome // nil if the intent must be read
	}{
		"the bank's reason": {decline, gateway.Declined{ID: "pi_1", Code: "lost_card"}},
		"Stripe's reason": {replace(decline, `"decline_code":"lost_card",`, ""), gateway.Declined{ID: "pi_1",
			Code: "card_declined"}},
		"a reason that is no code": {replace(decline, `lost_card`, `Lost card!`), gateway.Declined{ID: "pi_1",
			Code: "declined"}},
		"no intent":     {problemOf("card_error", "card_declined", ""), nil},
		"another type":  {replace(decline, "card_error", "api_error"), nil},
		"a live intent": {problemOf("card_error", "card_declined", intentIs("processing")), nil},
		"no error":      {"<html>", nil},
		"two types":     {replace(decline, `}}`, `},"type":"card_error"}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted(t, map[string][]answer{confirmLine: {{status: 402, body: row.body}},
				readLine: {ok(intentIs("succeeded"))}})
			o := newClient(t, s.URL).Charge(t.Context(), aCharge())
			if row.want == nil {
				row.want = gateway.Succeeded{ID: "pi_1"}
			}
			if o != row.want {
				t.Fatalf("outcome %T %+v, want %+v", o, o, row.want)
			}
		})
	}
	other := replace(decline, `"pi_1"`, `"pi_2"`)
	s := scripted(t, map[string][]answer{confirmLine: {{status: 402, body: other}}})
	contradicts(t, newClient(t, s.URL).Charge(t.Context(), aCharge()), "answer has another id")
}

// Only the code of the rate limiter proves that nothing was executed. With lock_timeout, a lock was held by another
// request about this intent, so an execution may be under way.
func TestOtherLimitIsNoRateLimit(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 409, 503} { // the limiter's code, and not its status
		s := scripted(t, map[string][]answer{readLine: {ok(intentIs("succeeded"))},
			confirmLine: {{status: status, body: problemOf("invalid_request_error", "rate_limit", "")}}})
		if o := newClient(t, s.URL).Charge(t.Context(), aCharge()); o != (gateway.Succeeded{ID: "pi_1"}) {
			t.Fatalf("%d: outcome %T %+v", status, o, o)
		}
	}
	for _, body := range []string{
		problemOf("invalid_request_error", "lock_timeout", ""), problemOf("invalid_request_error", "", ""),
		problemOf("invalid_request_error", "card_decline_rate_limit_exceeded", ""), "<html>too many</html>",
		`{"error":{"code":"rate_limit"}}`,
	} {
		s := scripted(t, map[string][]answer{confirmLine: {{status: 429, body: body}},
			readLine: {ok(intentIs("succeeded"))}})
		if o := newClient(t, s.URL).Charge(t.Context(), aCharge()); o != (gateway.Succeeded{ID: "pi_1"}) {
			t.Fatalf("%s: outcome %T %+v", body, o, o)
		}
		re := scripted(t, map[string][]answer{refundLine: {{status: 429, body: body}}})
		indeterminate(t, newClient(t, re.URL).Refund(t.Context(), aRefund()), "PSP answered 429")
	}
}

// Without a verdict, the client would hear at each attempt that the PSP is unavailable.
func TestConfirmationThatIsRefusedForGoodIsADecline(t *testing.T) {
	t.Parallel()
	refusal := problemOf("invalid_request_error", "payment_method_unexpected_state", "")
	waits, executed := ok(intentIs("requires_confirmation")), ok(intentIs("succeeded"))
	for name, row := range map[string]struct {
		confirmed, read, cancelled answer
		want                       gateway.Outcome
	}{
		"cancelled": {answer{status: 400, body: refusal}, waits, ok(intentIs("canceled")),
			gateway.Declined{Code: "payment_method_unexpected_state"}},
		"executed": {answer{status: 400, body: refusal}, executed, answer{}, gateway.Succeeded{ID: "pi_1"}},
		"our program": {answer{status: 400, body: problemOf("invalid_request_error", "parameter_unknown", "")}, waits,
			ok(intentIs("canceled")), gateway.NotExecuted{Reason: cancelled}},
		"another status": {answer{status: 500, body: refusal}, waits, ok(intentIs("canceled")),
			gateway.NotExecuted{Reason: cancelled}},
	} {
		s := scripted(t, map[string][]answer{confirmLine: {row.confirmed}, readLine: {row.read},
			cancelLine: {row.cancelled}})
		if o := newClient(t, s.URL).Charge(t.Context(), aCharge()); o != row.want {
			t.Errorf("%s: outcome %T %+v", name, o, o)
		}
	}
	s := scripted(t, map[string][]answer{confirmLine: {{status: 400, body: refusal}}, readLine: {waits},
		cancelLine: {{lost: true}}})
	indeterminate(t, newClient(t, s.URL).Charge(t.Context(), aCharge()), "PSP answered 400")
}

// The read takes most of the time, and the cancel is never answered. Without a common deadline, it would take twice as
// long.
func TestReadAndCancelTakeNoLongerThanOneRequest(t *testing.T) {
	t.Parallel()
	const total = 2 * time.Second
	for name, ask := range map[string]func(*Client){
		"after a confirmation": func(c *Client) {
			indeterminate(t, c.Charge(t.Context(), aCharge()), "PSP answered 500")
		},
		"in a lookup": func(c *Client) {
			if l := c.Lookup(t.Context(), aCharge(), gateway.EndUnsent); l.Label() != "lookup_failed" {
				t.Errorf("lookup %T %+v", l, l)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Method + " " + r.URL.Path {
				case readLine:
					select {
					case <-time.After(total * 9 / 10):
					case <-r.Context().Done():
					}
					_, _ = io.WriteString(w, intentIs("requires_confirmation"))
				case cancelLine:
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
				default:
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			began := time.Now()
			ask(newClient(t, s.URL, func(c *Config) { c.Limits.Total = total }))
			if took := time.Since(began); took > total*16/10 {
				t.Fatalf("it took %s", took)
			}
		})
	}
}

// Stripe knows the key with other parameters. Then the key may stand for another payment of ours, such as one from
// before a restored backup. A new key would charge the customer again.
func TestKeyThatStripeKnowsWithAnotherRequestIsForAnOperator(t *testing.T) {
	t.Parallel()
	reused := answer{status: 400, body: problemOf("idempotency_error", "", "")}
	s := scripted(t, map[string][]answer{createLine: {reused, reused}})
	c := newClient(t, s.URL)
	_, o := c.Prepare(t.Context(), aCharge())
	if lost, is := o.(gateway.Indeterminate); !is || !lost.Contradiction || len(lost.Evidence) == 0 {
		t.Fatalf("outcome %T %+v", o, o)
	}
	ch := aCharge()
	ch.ObjectID = ""
	if l := c.Lookup(t.Context(), ch, gateway.EndWaiting); l != (gateway.LookupFailed{Reason: "PSP answered 400"}) {
		t.Fatalf("lookup %T %+v", l, l)
	}
}

// The decline has come before our cancel.
func TestIntentThatWasDeclinedAndThenCancelledIsDeclined(t *testing.T) {
	t.Parallel()
	body := replace(intentIs("declined"), `"status":"requires_payment_method"`, `"status":"canceled"`)
	s := scripted(t, map[string][]answer{readLine: {{status: 200, body: body}}})
	l := newClient(t, s.URL).Lookup(t.Context(), aCharge(), gateway.EndUnsent)
	found, is := l.(gateway.Found)
	if !is || len(found.Records) != 1 || found.Records[0].Status != gateway.StatusDeclined {
		t.Fatalf("lookup %T %+v", l, l)
	}
}

// An intent that says how much it has received has moved money, whatever else it says. It must not release the key: the
// next attempt would charge again. And it must not be told as a decline.
func TestIntentThatHasReceivedMoneyIsNeitherEndedNorDeclined(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"canceled", "requires_payment_method", "requires_confirmation", "requires_action",
		"declined"} {
		odd := replace(intentIs(status), `"amount_received":0`, `"amount_received":12000`)
		s := scripted(t, map[string][]answer{
			confirmLine: {{lost: true}}, readLine: {ok(odd), ok(odd)}, cancelLine: {ok(odd), ok(odd)},
		})
		c := newClient(t, s.URL)
		if o := c.Charge(t.Context(), aCharge()); o.Label() != "indeterminate" {
			t.Errorf("%s: outcome %T %+v", status, o, o)
		}
		if l := c.Lookup(t.Context(), aCharge(), gateway.EndWaiting); l.Label() != "lookup_failed" {
			t.Errorf("%s: lookup %T %+v", status, l, l)
		}
		if lines := strings.Join(s.lines(), ", "); strings.Contains(lines, cancelLine) {
			t.Errorf("%s: sent %s", status, lines)
		}
	}
}

// Without an amount received, the status decides. A member that is there twice could be read in two ways.
func TestIntentWithAMemberThatIsMissingOrThereTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want state
	}{
		"no amount received": {replace(intentIs("canceled"), `"amount_received":0,`, ""), ended},
		"two currencies":     {strings.TrimSuffix(intentIs("canceled"), "}") + `,"currency":"usd"}`, unclear},
	} {
		if f := inspect(aCharge(), 200, []byte(c.body)); f.state != c.want {
			t.Errorf("%s: finding %+v", name, f)
		}
	}
}

// Money has not moved, and the operator reads that in a record. A bank's reason is in it.
func TestEvidenceOfADeclineIsARecord(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{confirmLine: {ok(replace(intentIs("declined"), "12000", "12001"))}})
	evidence := contradicts(t, newClient(t, s.URL).Charge(t.Context(), aCharge()), "answer has another amount")
	if !strings.Contains(evidence, `"declineCode":"insufficient_funds"`) ||
		strings.Contains(evidence, "last_payment_error") {
		t.Errorf("evidence %s", evidence)
	}
}

// The database cannot store a number with an exponent. That money has moved must be kept all the same.
func TestEvidenceOfMovedMoneyIsKeptWithoutTheRest(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{createLine: {ok(replace(intentIs("succeeded"), `{`, `{"rate":1.3e0,`))}})
	ch := aCharge()
	ch.ObjectID = ""
	_, refused := newClient(t, s.URL).Prepare(t.Context(), ch)
	o, _ := refused.(gateway.Indeterminate)
	if !o.Contradiction || !strings.Contains(string(o.Evidence), `"answer":{"id":"pi_1"`) ||
		!strings.Contains(string(o.Evidence), `"status":"succeeded"`) {
		t.Fatalf("refused %T %+v, with %s", refused, refused, o.Evidence)
	}
}
