package psp

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"payonce/demo/mockpsp"
	mockstripe "payonce/demo/mockpsp/stripe"
	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
)

func stripeDialect() *Dialect {
	return &Dialect{
		Name:    stripe.Name,
		Account: "acct_",
		Secrets: [2]string{mockstripe.DemoWebhookSecret, "whsec_another_signing_secret"},
		Client: func(url string, secrets []string, l gateway.Limits, now func() time.Time) (gateway.PSP, error) {
			return newStripe(url, apiSecret, "ours", secrets, l, now)
		},
		StepOf: stripeStep,
		ChargeSteps: []Step{
			{Name: "create", Token: "pm_ok", Answer: true},
			{Name: "confirm", Token: "pm_ok", Answer: true, Known: true},
			{Name: "read", Token: "pm_reset_charged", Late: "pm_late_charge", Answer: true, Known: true},
			{Name: "cancel", Token: "pm_500_not_charged", Late: "pm_late_charge", Answer: true, Known: true},
		},
		RefundSteps: []Step{
			{Name: "refund", Answer: true},
			{Name: "lookup", Token: "pm_reset_charged", Answer: true},
		},
		Entries: Entries{
			Prepare: "create", Charge: "confirm", Refund: "refund", LookupCharge: "read", LookupRefund: "lookup",
		},
		Charges: stripeCharges(),
		Refunds: stripeRefunds(),
		Start:   startStripe,
		Rates:   "stripe",
		Events: append(eventFaults(), Fault{Name: "unknown type", Rates: `{"stripe":{"unknown_events":1}}`},
			Fault{Name: "foreign"}),
		RawCharge: foreignIntent(),
		Foreign: func(w *world) {
			_, made := w.raw(foreignIntent(), "")
			id := regexp.MustCompile(`"pi_[a-z0-9]+"`).FindString(made)
			confirm := Raw{"/v1/payment_intents/" + strings.Trim(id, `"`) + "/confirm", "", foreignIntent().Header}
			if status, body := w.raw(confirm, ""); status != http.StatusOK {
				w.t.Errorf("%d %s", status, body)
			}
		},
		Suffix: ".confirm.1",
	}
}

func startStripe(shared mockpsp.Config, webhookURL string) (*mock, error) {
	psp, err := mockpsp.New(shared)
	if err != nil {
		return nil, err
	}
	c := mockstripe.DefaultConfig()
	c.Secret, c.ActionDelay, c.SearchLag = apiSecret, due, due
	c.WebhookURL, c.WebhookSecrets = webhookURL, []string{mockstripe.DemoWebhookSecret}
	dialect, err := mockstripe.New(psp, c)
	if err != nil {
		return nil, errors.Join(err, psp.Close())
	}
	return &mock{shared: psp, handler: dialect, due: dialect.Due, close: func() error {
		return errors.Join(dialect.Close(), psp.Close())
	}}, nil
}

// newStripe makes a client of an installation.
func newStripe(
	url, secret, installation string, webhooks []string, l gateway.Limits, now func() time.Time,
) (gateway.PSP, error) {
	return stripe.New(stripe.Config{URL: url, Secret: secret, WebhookSecrets: webhooks, Limits: l, Now: now,
		Installation: func() string { return installation }})
}

// clientOf makes a client of an installation that shares the account of the world's.
func (w *world) clientOf(installation string) gateway.PSP {
	w.t.Helper()
	client, err := newStripe(w.wire.url(), apiSecret, installation, w.dialect.Secrets[:1], gateway.DefaultLimits(),
		w.clock.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

// foreignIntent is an intent as another program makes it.
func foreignIntent() Raw {
	return Raw{"/v1/payment_intents", "amount=100&currency=usd&payment_method=pm_ok",
		map[string]string{"Stripe-Account": "acct_acme", "Content-Type": "application/x-www-form-urlencoded"}}
}

func stripeStep(r *http.Request) string {
	path := r.URL.Path
	switch {
	case r.Method == http.MethodPost && path == "/v1/payment_intents":
		return "create"
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/confirm"):
		return "confirm"
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/cancel"):
		return "cancel"
	case r.Method == http.MethodPost && path == "/v1/refunds":
		return "refund"
	case path == "/v1/payment_intents/search":
		return "search"
	case r.Method == http.MethodGet && strings.HasPrefix(path, "/v1/payment_intents/"):
		return "read"
	case r.URL.Query().Has("payment_intent"):
		return "lookup"
	case path == "/v1/balance_transactions":
		return "statement"
	case r.Method == http.MethodGet:
		return "list"
	}
	return ""
}

// noEffect is a seed with which the first cancellation that fails has no effect.
const noEffect = 5

// stripeTokens are those that act on charges and refunds.
func stripeTokens() []string {
	return []string{
		"pm_ok", "pm_declined", "pm_slow", "pm_timeout_charged", "pm_silent_charged", "pm_timeout_not_charged",
		"pm_never", "pm_500_charged", "pm_500_not_charged", "pm_reset_charged", "pm_late_charge", "pm_wrong_amount",
		"pm_stuck", "pm_forgotten_key", "pm_booked_late", "pm_bank_debit", "pm_bank_debit_fails",
	}
}

func stripeCharges() []Fault {
	faults := tokens(append(stripeTokens(), "pm_create_500", "pm_create_lost", "pm_rate_limited", "pm_conflict",
		"pm_requires_action", "pm_requires_action_abandoned", "pm_1NXWPnFTKLoHxWqrGexC2v1e", "pm_does_not_exist")...)
	faults = append(faults, Fault{Name: "one cent", Token: "pm_ok", Amount: 1})
	faults = append(faults, chances("pm_ok", "create_500_saved", "rate_limited", "conflict", "key_forgotten",
		"requires_action", "unknown_events", "double_events", "read_500")...)
	faults = append(faults, chances("pm_reset_charged", "read_500")...)
	// Half of the time, a cancellation that fails has had no effect. Two seeds give both.
	faults = append(faults, chances("pm_500_not_charged", "cancel_lost", "cancel_500", "read_500")...)
	for _, f := range chances("pm_500_not_charged", "cancel_lost", "cancel_500") {
		f.Name, f.Seed = f.Name+" and no effect", noEffect
		faults = append(faults, f)
	}
	return with(faults, open, "pm_stuck")
}

func stripeRefunds() []Fault {
	faults := tokens(append(stripeTokens(), "pm_refund_returned")...)
	faults = append(faults, chances("", "rate_limited", "conflict", "key_forgotten", "unknown_events",
		"double_events")...)
	faults = with(faults, forgets, "pm_forgotten_key", "key_forgotten")
	faults = with(faults, fails, "pm_refund_returned")
	return with(faults, open, "pm_stuck")
}

// chances are the faults that only chance picks. While the request is sent, each request meets them.
func chances(token string, names ...string) (faults []Fault) {
	for _, name := range names {
		f := Fault{Name: name, Token: token, Rates: `{"stripe":{"` + name + `":1}}`}
		if token != "" && token != "pm_ok" {
			f.Name += " with " + token
		}
		faults = append(faults, f)
	}
	return faults
}
