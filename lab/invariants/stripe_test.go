package invariants

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

const theIntent = "pi_1"

// stripeCall is a call as Payonce makes it for the payment of these tests.
type stripeCall struct {
	account, path, key string
	form               url.Values
}

func (c stripeCall) with(name, value string) stripeCall {
	form := url.Values{}
	for n, v := range c.form {
		form[n] = v
	}
	form.Set(name, value)
	c.form = form
	return c
}

func (c stripeCall) to(path string) stripeCall { c.path = path; return c }

func (c stripeCall) under(key string) stripeCall { c.key = key; return c }

func (c stripeCall) of(account string) stripeCall { c.account = account; return c }

func (c stripeCall) arrive(t *testing.T, o *Reservations) {
	t.Helper()
	header := http.Header{"Stripe-Account": {c.account}, "Idempotency-Key": {c.key}}
	o.ArrivedAtStripe(t.Context(), c.path, header, []byte(c.form.Encode()))
}

// stripeCalls are the creation and the confirmation of a payment whose row has stored the intent.
func stripeCalls(s *shop) (create, confirm stripeCall) {
	s.breach("UPDATE payments SET psp_object_id = $1 WHERE tenant_id = 'acme' AND idempotency_key = $2", theIntent, paidKey)
	create = stripeCall{"acme", "/v1/payment_intents", paidKey + ".create.1", url.Values{
		"amount": {"12000"}, "currency": {"usd"}, "payment_method": {"pm_ok"}, "confirm": {"false"},
		"metadata[reference]": {s.reference(paidKey)}, "metadata[idempotency_key]": {paidKey},
	}}
	return create, stripeCall{"acme", "/v1/payment_intents/" + theIntent + "/confirm", paidKey + ".confirm.1", nil}
}

func TestStepsBehindTheirReservationAreFine(t *testing.T) {
	t.Parallel()
	s := lived(t)
	create, confirm := stripeCalls(s)
	o := watch(t, s)
	create.arrive(t, o)
	confirm.arrive(t, o)
	confirm.to("/v1/payment_intents/"+theIntent+"/cancel").arrive(t, o) // moves no money: not looked at
	if found, err := o.Violations(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	if all, _ := o.Arrivals(); all != 2 {
		t.Errorf("%d arrivals", all)
	}
}

func TestStepsWithoutAReservationAreFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	create, confirm := stripeCalls(s)
	for name, call := range map[string]stripeCall{
		"creation of another amount":        create.with("amount", "12001"),
		"creation in another currency":      create.with("currency", "eur"),
		"creation with another method":      create.with("payment_method", "pm_slow"),
		"creation for another payment":      create.with("metadata[reference]", s.reference(lostKey)),
		"creation that executes at once":    create.with("confirm", "true"),
		"creation under a confirmation's":   create.under(paidKey + ".confirm.1"),
		"creation under a key of its own":   create.under("another-0123456789ab.create.1"),
		"creation in another account":       create.of("globex"),
		"creation without a key":            create.under(""),
		"confirmation of another intent":    confirm.to("/v1/payment_intents/pi_2/confirm"),
		"confirmation of nobody's payment":  confirm.under("another-0123456789ab.confirm.1"),
		"confirmation of a later attempt":   confirm.under(paidKey + ".confirm.7"),
		"confirmation of a next generation": confirm.under(paidKey + ".g2.confirm.1"),
		"confirmation in another account":   confirm.of("globex"),
		"confirmation under a creation's":   confirm.under(paidKey + ".create.1"),
		"confirmation without an attempt":   confirm.under(paidKey + ".confirm"),
	} {
		o := watch(t, s)
		call.arrive(t, o)
		if found, err := o.Violations(t.Context()); err != nil || len(found) != 1 || found[0].Invariant != "I9" {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// An owner that was stopped may confirm an intent whose payment has another one by now. It was stored, and it is
// cancelled.
func TestConfirmationOfAnIntentThatWasStoredOnceIsFine(t *testing.T) {
	t.Parallel()
	s := lived(t)
	if err := Archive(t.Context(), s.db); err != nil {
		t.Fatal(err)
	}
	_, confirm := stripeCalls(s)
	s.exec(`INSERT INTO lab.remembered_objects SELECT tenant_id, id, $1 FROM payments WHERE tenant_id = 'acme' AND idempotency_key = $2`,
		theIntent, paidKey)
	s.breach("UPDATE payments SET psp_object_id = 'pi_2' WHERE tenant_id = 'acme' AND idempotency_key = $1", paidKey)
	s.breach("UPDATE idempotency_keys SET attempt = 2 WHERE tenant_id = 'acme' AND key = $1", paidKey)
	o := watch(t, s)
	confirm.arrive(t, o)
	if found, err := o.Violations(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	confirm.to("/v1/payment_intents/pi_never/confirm").arrive(t, o)
	if found, err := o.Violations(t.Context()); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestIntentThatMayStillMoveMoneyIsFound(t *testing.T) {
	t.Parallel()
	s := lived(t)
	stripeCalls(s)
	b, err := readBooks(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	ours := func(status, reference, key string) Intent {
		return Intent{ID: theIntent, Status: status, Account: "acme",
			Metadata: map[string]string{"origin": "payonce:here", "reference": reference, "idempotency_key": key}}
	}
	reference := s.reference(paidKey)
	for name, c := range map[string]struct {
		intent Intent
		want   string
	}{
		"executed":          {ours("succeeded", reference, paidKey), ""},
		"another's":         {Intent{ID: "pi_3", Status: "processing", Account: "acme"}, ""},
		"with the bank":     {ours("processing", reference, paidKey), "I4"},
		"with the customer": {ours("requires_action", reference, paidKey), "I4"},
		"of nothing":        {ours("canceled", "pay_7", paidKey), "I9"},
		"under another key": {ours("canceled", reference, lostKey), "I9"},
	} {
		got := ""
		if v := b.intentWrong(c.intent); v != nil {
			got = v.Invariant
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	row := b.subjectOf(Entry{Reference: reference})
	row.Status = "failed"
	if v := b.intentWrong(ours("requires_confirmation", reference, paidKey)); v == nil || v.Invariant != "I8" {
		t.Errorf("given back by a lookup, and not cancelled: %v", v)
	}
	for reason, want := range map[string]bool{"PSP answered 429": false, "the PSP has cancelled it": true} {
		given := *b
		given.events = append(slices.Clone(b.events), eventRow{
			Tenant: row.Tenant, Operation: row.operation(), Key: row.Key, Generation: row.Generation,
			Actor: "owner", From: "in_progress", To: "failed_retryable", Reason: reason,
		})
		v := given.intentWrong(ours("requires_confirmation", reference, paidKey))
		if found := v != nil && v.Invariant == "I8"; found != want {
			t.Errorf("given back by its owner, %q, and not cancelled: %v", reason, v)
		}
		if v := given.intentWrong(ours("canceled", reference, paidKey)); v != nil {
			t.Errorf("given back by its owner, %q, and cancelled: %v", reason, v)
		}
	}
}

func TestConfirmationThatIsSentTwiceIsFound(t *testing.T) {
	t.Parallel()
	posts := map[string]int{"k.confirm.1": 1, "k.confirm.2": 1, "k.refund": 2, "k.refund.2": 1, "k.create.1": 5}
	psp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"posts":%d,"exact":true,"requests":[]}`, posts[r.URL.Query().Get("idempotencyKey")])
	}))
	t.Cleanup(psp.Close)
	e := Evidence{HTTP: psp.Client(), PSP: psp.URL}
	all := allowance{atStripe: true, attemptsToCharge: 2, attemptsToRefund: 2}
	for name, c := range map[string]struct {
		key  string
		more int
		a    allowance
		want string
	}{
		"as many as attempts":     {"k.confirm.1", 0, all, ""},
		"one too many":            {"k.confirm.1", 1, all, "confirm.1"},
		"of no attempt":           {"k.confirm.3", 1, all, "confirm.3"},
		"a refund too many":       {"k.refund", 1, all, "refund"},
		"a further key too often": {"k.refund.2", 1, all, "refund.2"},
	} {
		posts[c.key] += c.more
		wrong, err := e.stripeSends(t.Context(), pspKey{"acme", "k"}, c.a)
		posts[c.key] -= c.more
		if err != nil || (wrong == "") != (c.want == "") || !strings.HasPrefix(wrong, c.want) {
			t.Errorf("%s: %q, %v", name, wrong, err)
		}
	}
}
