package psp

import (
	"net/http"
	"strings"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
)

const apiSecret = "sk_test_conformance_secret"

func nativeDialect() *Dialect {
	return &Dialect{
		Name:    native.Name,
		Account: "acct_",
		Secrets: [2]string{mockpsp.DemoWebhookSecret, "whsec_" + strings.Repeat("QUJD", 10)},
		Client: func(url string, secrets []string, l gateway.Limits, now func() time.Time) (gateway.PSP, error) {
			return native.New(url, apiSecret, l, secrets, now)
		},
		StepOf: nativeStep,
		ChargeSteps: []Step{
			{Name: "charge", Token: "pm_ok", Answer: true, Account: true},
			{Name: "lookup", Token: "pm_reset_charged", Answer: true, Account: true},
		},
		RefundSteps: []Step{
			{Name: "refund", Answer: true, Account: true},
			{Name: "lookup", Token: "pm_reset_charged", Answer: true, Account: true},
		},
		Entries: Entries{Charge: "charge", Refund: "refund", LookupCharge: "lookup", LookupRefund: "lookup"},
		Charges: nativeFaults(),
		Refunds: nativeFaults(),
		Start:   startNative,
		Rates:   "rates",
		Events:  eventFaults(),
		RawCharge: Raw{
			"/v1/charges", `{"amountCents":1,"currency":"USD","paymentMethod":"pm_ok","reference":"pay_raw"}`,
			map[string]string{"PSP-Account": "acct_acme", "Content-Type": "application/json"},
		},
	}
}

// startNative needs no server beside the shared one: that one speaks the wire format itself.
func startNative(shared mockpsp.Config, webhookURL string) (*mock, error) {
	shared.WebhookURL, shared.WebhookSecret = webhookURL, mockpsp.DemoWebhookSecret
	psp, err := mockpsp.New(shared)
	if err != nil {
		return nil, err
	}
	return &mock{shared: psp, handler: psp, due: psp.Due, close: psp.Close}, nil
}

func nativeStep(r *http.Request) string {
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/charges":
		return "charge"
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/refunds"):
		return "refund"
	case r.URL.Query().Has("idempotencyKey"):
		return "lookup"
	case strings.HasPrefix(r.URL.Path, "/v1/settlements/"):
		return "statement"
	case r.Method == http.MethodGet:
		return "list"
	}
	return ""
}

// nativeFaults are all that the mock has: TestTheSuiteKnowsEachFault compares them with the mock's own list.
func nativeFaults() []Fault {
	faults := tokens(
		"pm_ok", "pm_declined", "pm_slow", "pm_timeout_charged", "pm_silent_charged", "pm_timeout_not_charged",
		"pm_never", "pm_500_charged", "pm_500_not_charged", "pm_reset_charged", "pm_late_charge", "pm_wrong_amount",
		"pm_stuck", "pm_wrong_currency", "pm_wrong_reference", "pm_no_reference", "pm_wrong_key", "pm_wrong_account",
		"pm_wrong_charge", "pm_wrong_id", "pm_charged_twice", "pm_decline_after_charge",
		"pm_decline_after_wrong_amount", "pm_forgotten_key", "pm_duplicate_member", "pm_invalid_utf8",
		"pm_huge_member", "pm_large_metadata", "pm_unknown_status", "pm_booked_late",
	)
	faults = with(faults, forgets, "pm_forgotten_key")
	faults = with(faults, twice, "pm_charged_twice")
	faults = with(faults, wrongID, "pm_wrong_id")
	return with(faults, open, "pm_stuck")
}
