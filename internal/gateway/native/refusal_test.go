package native_test

import (
	"fmt"
	"testing"

	"payonce/internal/gateway"
)

// The PSP's own answer to aCharge, whose payment method it does not have.
const refusedBefore = `{"error":{"code":"unknown_payment_method","message":"no such method","account":"canary-account",` +
	`"idempotencyKey":"canary-key-0123456789","reference":"pay_canary"}}`

func TestDocumentedRefusalBeforeAnyEffectIsADecline(t *testing.T) {
	t.Parallel()
	s := answering(t, 400, refusedBefore)
	if o := newClient(t, s.URL).charge(); o != (gateway.Declined{Code: "unknown_payment_method"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
	c := practising(t)
	ch, o := c.pay("key-of-refused", "pm_gold")
	if o != (gateway.Declined{Code: "unknown_payment_method"}) {
		t.Fatalf("the mock PSP's refusal is %T %+v", o, o)
	}
	if l := c.Lookup(t.Context(), ch, gateway.EndNothing); l != (gateway.NotFound{}) {
		t.Fatalf("lookup %T %+v", l, l)
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
