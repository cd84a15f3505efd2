package native_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/test/wait"
)

func replace(s, from, to string) string {
	if !strings.Contains(s, from) {
		panic("nothing to replace: " + from)
	}
	return strings.Replace(s, from, to, 1)
}

// Not even a body that says otherwise makes a verdict of a status that is none.
func TestStatusThatIsNoVerdictIsIndeterminate(t *testing.T) {
	t.Parallel()
	statuses := []int{202, 203, 204, 205, 206, 226, 299, 300, 301, 304, 307, 399}
	for s := 400; s < 452; s++ {
		if s != http.StatusPaymentRequired && s != http.StatusUnprocessableEntity {
			statuses = append(statuses, s)
		}
	}
	statuses = append(statuses, 499, 500, 501, 502, 503, 504, 505, 507, 508, 511, 520, 529, 598, 599, 600, 999)
	for _, status := range statuses {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := answering(t, status, charged)
			o := newClient(t, s.URL).charge()
			indeterminate(t, o, fmt.Sprintf("PSP answered %d", status))
			// An answer of the PSP is evidence. The page of a server error is not.
			if kept := o.(gateway.Indeterminate).Evidence != nil; kept != (status < 500) {
				t.Errorf("the answer is kept: %t", kept)
			}
		})
	}
}

// Another request was sent under our key, by somebody.
func TestReusedKeyIsAContradiction(t *testing.T) {
	t.Parallel()
	s := answering(t, http.StatusUnprocessableEntity,
		`{"error":{"code":"idempotency_mismatch","message":"other body"}}`)
	evidence := contradiction(t, newClient(t, s.URL).charge(), "PSP answered 422")
	if want := `{"status":422,"answer":{"error":{"code":"idempotency_mismatch","message":"other body"}}}`; string(evidence) != want {
		t.Fatalf("evidence %s, want %s", evidence, want)
	}
}

func TestAnswerAboutSomethingElseIsAContradiction(t *testing.T) {
	t.Parallel()
	refund := replace(refunded, `"status":"succeeded"`, `"status":"declined","declineCode":"x"`)
	for name, row := range map[string]struct{ member, from, to string }{
		"another account": {"account", `"account":"canary-account"`, `"account":"globex"`},
		"no account":      {"account", `"account":"canary-account",`, ``},
		"another key": {"key", `"idempotencyKey":"canary-key-0123456789"`,
			`"idempotencyKey":"canary-key-0123456789.g2"`},
		"the key in another case": {"key", `"canary-key-0123456789"`, `"CANARY-KEY-0123456789"`},
		"no key":                  {"key", `"idempotencyKey":"canary-key-0123456789",`, ``},
		"another reference":       {"reference", `"reference":"`, `"reference":"x`},
		"another charge":          {"charge", `"chargeId":"ch_1"`, `"chargeId":"ch_2"`},
		"no charge":               {"charge", `"chargeId":"ch_1",`, ``},
		"a larger amount":         {"amount", `"amountCents":500`, `"amountCents":501`},
		"a negative amount":       {"amount", `"amountCents":500`, `"amountCents":-500`},
		"no amount":               {"amount", `"amountCents":500,`, ``},
		"another currency":        {"currency", `"currency":"USD"`, `"currency":"KRW"`},
		"the currency in lower":   {"currency", `"USD"`, `"usd"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for status, body := range map[int]string{201: refunded, 402: refund} {
				body = replace(body, row.from, row.to)
				s := answering(t, status, body)
				c := newClient(t, s.URL)
				evidence := contradiction(t, c.checked(c.Refund(t.Context(), aRefund())), "answer has another "+
					row.member)
				if want := fmt.Sprintf(`{"status":%d,"answer":%s}`, status, body); string(evidence) != want {
					t.Fatalf("evidence %s, want %s", evidence, want)
				}
			}
		})
	}
}

func TestAnswerToAChargeThatNamesAChargeIsAContradiction(t *testing.T) {
	t.Parallel()
	s := answering(t, 201, replace(charged, `"object":"charge"`, `"chargeId":"ch_0"`))
	contradiction(t, newClient(t, s.URL).charge(), "answer has another charge")
}

// A dead letter is written with the evidence, in the transaction that makes the key unknown: what PostgreSQL refuses as
// jsonb would undo both.
func TestEvidenceIsAlwaysJSONThatTheDatabaseTakes(t *testing.T) {
	t.Parallel()
	other := replace(charged, `12000`, `12001`)
	// What we have read is kept, above all that money has moved.
	read := `{"status":201,"answer":` + replace(other, `"paymentMethod":"pm_canary",`, ``) + `}`
	for name, body := range map[string]string{
		"U+0000":                        replace(other, `"charge"`, `"a\u0000b"`),
		"a number beyond all ranges":    replace(other, `"charge"`, `1e200000`),
		"a number too small for ranges": replace(other, `"charge"`, `[{"a":1E-200000}]`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, 201, body)
			if evidence := contradiction(t, newClient(t, s.URL).charge(),
				"answer has another amount"); string(evidence) != read {
				t.Fatalf("evidence %s", evidence)
			}
		})
	}
}

func TestMalformedAnswerIsIndeterminate(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty": "", "null": "null", "array": "[" + charged + "]", "string": `"ok"`, "HTML": "<html>ok</html>",
		"truncated": charged[:len(charged)-1], "more behind": charged + "{}", "two": charged + charged,
		"BOM":                    "\ufeff" + charged,
		"duplicate member":       replace(charged, `{`, `{"status":"succeeded",`),
		"duplicate unknown":      replace(charged, `{`, `{"x":1,"x":2,`),
		"duplicate by an escape": replace(charged, `{`, `{"\u0073tatus":"succeeded",`),
		"names in another case":  replace(charged, `"status"`, `"Status"`),
		"invalid UTF-8":          replace(charged, `"charge"`, "\"\xff\""),
		"lone surrogate":         replace(charged, `"charge"`, `"\ud800"`),
		"no id":                  replace(charged, `"id":"ch_1",`, ``),
		"empty id":               replace(charged, `"ch_1"`, `""`),
		"null id":                replace(charged, `"ch_1"`, `null`),
		"number as id":           replace(charged, `"ch_1"`, `1`),
		"id with U+0000":         replace(charged, `"ch_1"`, `"ch_\u0000"`),
		"id with a space":        replace(charged, `"ch_1"`, `"ch 1"`),
		"id too long":            replace(charged, `"ch_1"`, `"`+strings.Repeat("c", 256)+`"`),
		"no status":              replace(charged, `,"status":"succeeded"`, ``),
		"null status":            replace(charged, `"succeeded"`, `null`),
		"true as status":         replace(charged, `"succeeded"`, `true`),
		"amount as string":       replace(charged, `12000`, `"12000"`),
		"amount with a fraction": replace(charged, `12000`, `12000.0`),
		"amount with exponent":   replace(charged, `12000`, `12e3`),
		"amount out of range":    replace(charged, `12000`, `99999999999999999999`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{200, 201, 402} {
				s := answering(t, status, body)
				indeterminate(t, newClient(t, s.URL).charge(), "answer malformed")
			}
		})
	}
}

func TestRequestsAreSentAsTheContractSays(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answer     string
		send       func(*client) gateway.Outcome
		outcome    gateway.Outcome
		path, body string
	}{
		"charge": {charged, (*client).charge, gateway.Succeeded{ID: "ch_1"}, "/v1/charges",
			`{"amountCents":12000,"currency":"USD","paymentMethod":"pm_canary","reference":"pay_canary"}`},
		"refund": {refunded, func(c *client) gateway.Outcome { return c.Refund(t.Context(), aRefund()) },
			gateway.Succeeded{ID: "rf_1"}, "/v1/charges/ch_1/refunds",
			`{"amountCents":500,"currency":"USD","reference":"re_canary","reason":"canary reason"}`},
	} {
		got := make(chan string, 1)
		s := capturing(t, got, row.answer)
		if o := row.send(newClient(t, s.URL)); o != row.outcome {
			t.Fatalf("%s: outcome %T %+v", name, o, o)
		}
		want := `POST ` + row.path + `
Accept: application/json
Accept-Encoding: 
Authorization: Bearer ` + secret + `
Content-Type: application/json
Idempotency-Key: canary-key-0123456789
Psp-Account: canary-account
` + row.body
		if diff := cmp.Diff(want, wait.For(t, "the request", got)); diff != "" {
			t.Fatalf("%s: request differs (-want +got):\n%s", name, diff)
		}
	}
}

// A charge id is the PSP's word: it must not be able to name another path.
func TestChargeIDCannotLeaveItsPlaceInThePath(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI })
	r := aRefund()
	r.ChargeID = "../x?y#z/%"
	newClient(t, s.URL).Refund(t.Context(), r)
	if path := wait.For(t, "the request", got); path != "/v1/charges/..%2Fx%3Fy%23z%2F%25/refunds" {
		t.Fatalf("asked for %s", path)
	}
}

func TestVerdictNeedsStatusAndBodyToAgree(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
		want   gateway.Outcome
	}{
		"succeeded with 201": {201, charged, gateway.Succeeded{ID: "ch_1"}},
		"succeeded with 200": {200, charged, gateway.Succeeded{ID: "ch_1"}},
		"declined with 402":  {402, refused, gateway.Declined{ID: "ch_2", Code: "insufficient_funds"}},
		"declined with 201":  {201, refused, gateway.Indeterminate{Reason: "answer without a verdict"}},
		"declined with 200":  {200, refused, gateway.Indeterminate{Reason: "answer without a verdict"}},
		"succeeded with 402": {402, charged, gateway.Indeterminate{Reason: "answer without a verdict"}},
		"pending with 201": {201, replace(charged, `"succeeded"`, `"pending"`),
			gateway.Indeterminate{Reason: "answer without a verdict"}},
		"pending with 402": {402, replace(refused, `"declined"`, `"pending"`),
			gateway.Indeterminate{Reason: "answer without a verdict"}},
		"declined without code": {402, replace(refused, `"insufficient_funds"`, `""`),
			gateway.Indeterminate{Reason: "answer without a verdict"}},
		"code that is no code": {402, replace(refused, `insufficient_funds`, `<script>`),
			gateway.Indeterminate{Reason: "answer without a verdict"}},
		"unknown members": {201, replace(charged, `"object":"charge"`, `"object":{"a":[1.5e3,null]}`),
			gateway.Succeeded{ID: "ch_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, row.status, row.body)
			if diff := cmp.Diff(row.want, newClient(t, s.URL).charge()); diff != "" {
				t.Fatalf("outcome differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeclinedRefundIsDeclined(t *testing.T) {
	t.Parallel()
	s := answering(t, 402, replace(refunded, `"status":"succeeded"`,
		`"status":"declined","declineCode":"refund_exceeds_charge"`))
	c := newClient(t, s.URL)
	if o := c.checked(c.Refund(t.Context(), aRefund())); o != (gateway.Declined{ID: "rf_1",
		Code: gateway.AlreadyMoved}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

func TestClientNamesItsSetting(t *testing.T) {
	t.Parallel()
	l := testLimits()
	if _, err := native.New("ftp://canary", secret, l, nil, time.Now); err == nil ||
		!strings.HasPrefix(err.Error(), "PSP_URL ") || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v", err)
	}
	l.InFlight = 0
	if _, err := native.New("http://psp", secret, l, nil, time.Now); err == nil {
		t.Error("a limit of no requests is taken")
	}
}

// capturing answers body, and tells the request line, the headers that matter and the body of each request.
func capturing(t *testing.T, got chan<- string, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		text := r.Method + " " + r.URL.Path + "\n"
		for _, name := range []string{"Accept", "Accept-Encoding", "Authorization", "Content-Type", "Idempotency-Key",
			"Psp-Account"} {
			text += name + ": " + r.Header.Get(name) + "\n"
		}
		got <- text + string(sent)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// The PSP's own answer to aCharge, whose payment method it does not have.
const refusedBefore = `{"error":{"code":"unknown_payment_method","message":"no such method","account":"canary-account",` +
	`"idempotencyKey":"canary-key-0123456789","reference":"pay_canary"}}`

func TestDocumentedRefusalBeforeAnyEffectIsADecline(t *testing.T) {
	t.Parallel()
	s := answering(t, 400, refusedBefore)
	if o := newClient(t, s.URL).charge(); o != (gateway.Declined{Code: "unknown_payment_method"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

// Whatever is not exactly the documented refusal of this very charge proves nothing.
func TestRefusalThatIsNotExactlyTheDocumentedOneIsIndeterminate(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ from, to string }{
		"another code":         {`unknown_payment_method`, `invalid_request`},
		"code in capitals":     {`unknown_payment_method`, `UNKNOWN_PAYMENT_METHOD`},
		"no code":              {`"code":"unknown_payment_method",`, ``},
		"no message":           {`"message":"no such method",`, ``},
		"another account":      {`canary-account`, `globex`},
		"no account":           {`"account":"canary-account",`, ``},
		"another key":          {`canary-key-0123456789`, `canary-key-0123456789.g2`},
		"no key":               {`"idempotencyKey":"canary-key-0123456789",`, ``},
		"another reference":    {`pay_canary`, `pay_other`},
		"no reference":         {`,"reference":"pay_canary"`, ``},
		"null reference":       {`"pay_canary"`, `null`},
		"reference twice":      {`"reference"`, `"reference":"pay_canary","reference"`},
		"name in another case": {`"reference"`, `"Reference"`},
		"a further member":     {`"code"`, `"retry":true,"code"`},
		"a charge beside":      {`{"error"`, `{"id":"ch_1","error"`},
		"no error":             {`"error"`, `"problem"`},
		"members outside":      {`{"error":{`, `{"error":{},"also":{`},
		"more behind":          {`}}`, `}}{}`},
		"cut off":              {`}}`, `}`},
		"invalid UTF-8":        {`no such`, "no \xff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, 400, replace(refusedBefore, row.from, row.to))
			indeterminate(t, newClient(t, s.URL).charge(), "PSP answered 400")
		})
	}
	for _, status := range []int{401, 403, 404, 409, 410, 429, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := answering(t, status, refusedBefore)
			indeterminate(t, newClient(t, s.URL).charge(), fmt.Sprintf("PSP answered %d", status))
		})
	}
	for _, status := range []int{200, 201, 402} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := answering(t, status, refusedBefore)
			indeterminate(t, newClient(t, s.URL).charge(), "answer malformed")
		})
	}
}

// A refund has no payment method: its reason is free text, and no such refusal is documented for it.
func TestRefusalOfAMethodSaysNothingOfARefund(t *testing.T) {
	t.Parallel()
	s := answering(t, 400, replace(refusedBefore, "pay_canary", "re_canary"))
	c := newClient(t, s.URL)
	indeterminate(t, c.checked(c.Refund(t.Context(), aRefund())), "PSP answered 400")
}

// Nothing could be told apart by an empty reference.
func TestRefusalOfAChargeWithoutAReferenceIsIndeterminate(t *testing.T) {
	t.Parallel()
	s := answering(t, 400, replace(refusedBefore, "pay_canary", ""))
	c := newClient(t, s.URL)
	ch := aCharge()
	ch.Reference = ""
	indeterminate(t, c.Charge(t.Context(), ch), "PSP answered 400")
}
