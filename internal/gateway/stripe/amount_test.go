package stripe

import (
	"math"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// The lists of https://docs.stripe.com/currencies, and the currencies without a minor unit of ISO 4217.
const (
	stripeZero  = "BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF"
	stripeThree = "BHD JOD KWD OMR TND"
	isoZero     = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
	isoThree    = "BHD IQD JOD KWD LYD OMR TND"
)

func digits(currency, zero, three string) int {
	switch {
	case strings.Contains(zero, currency):
		return 0
	case strings.Contains(three, currency):
		return 3
	}
	return 2
}

// One unit of a currency is 10^digits of its minor unit, for ISO 4217 as for Stripe.
func TestUnitIsTheSameMoneyInBothCounts(t *testing.T) {
	t.Parallel()
	for _, currency := range strings.Fields("USD EUR HUF TWD " + stripeZero + " " + stripeThree + " " + isoZero) {
		minor, theirs := int64(math.Pow10(digits(currency, isoZero, isoThree))), int64(math.Pow10(digits(currency,
			stripeZero, stripeThree)))
		amount, u := toStripe(minor, currency)
		if u != nil || amount != theirs {
			t.Errorf("one %s is %d, want %d: %+v", currency, amount, theirs, u)
		}
		if back, ok := fromStripe(amount, currency); !ok || back != minor {
			t.Errorf("one %s comes back as %d, %t", currency, back, ok)
		}
		_, differs := exponents[currency]
		if theirs != minor != differs || differs && math.Pow10(exponents[currency]) != float64(theirs) {
			t.Errorf("%s: the trait is %v", currency, exponents)
		}
	}
}

func TestAmountThatStripeCannotTakeIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		amount   int64
		currency string
		member   gateway.Member // "" if it is taken
	}{
		{1, "USD", ""}, {99_999_999, "USD", ""}, {100_000_000, "USD", "amount"}, {0, "USD", "amount"}, {-1, "USD",
			"amount"},
		{999_999_999_999, "IDR", ""}, {999_999_999, "INR", ""}, {1_000_000_000, "INR", "amount"},
		{9_999_999_999, "JPY", ""}, {10_000_000_000, "JPY", "amount"}, {99_999_999_999, "LBP", ""}, {100_000_000_000,
			"LBP", "amount"},
		{9_999_999_999, "COP", ""}, {9_999_999_999, "HUF", ""}, {999_999, "ISK", ""}, {1_000_000, "ISK", "amount"},
		{999_999, "UGX", ""},
		{184_467_440_737_095_517, "UGX", "amount"}, {100, "MGA", ""}, {150, "MGA", "amount"}, {99, "MGA", "amount"},
		{5120, "KWD", ""}, {5124, "KWD", "amount"}, {5124, "BHD", "amount"}, {5124, "JOD", "amount"},
		{5124, "OMR", "amount"}, {5124, "TND", "amount"}, {1000, "IQD", "currency"}, {1000, "LYD", "currency"},
	} {
		ch := aCharge()
		ch.AmountMinor, ch.Currency = row.amount, row.currency
		u := refuses(ch)
		if (u == nil) != (row.member == "") || u != nil && (u.Member != row.member || u.Detail == "") {
			t.Errorf("%d %s: %+v, want %q", row.amount, row.currency, u, row.member)
		}
	}
}

func TestAmountOfStripeThatIsNoAmountOfOursIsNotConverted(t *testing.T) {
	t.Parallel()
	for amount, ok := range map[int64]bool{math.MaxInt64 / 100: true, math.MaxInt64/100 + 1: false} {
		if minor, got := fromStripe(amount, "MGA"); got != ok || ok && minor != amount*100 {
			t.Errorf("%d is %d, %t", amount, minor, got)
		}
	}
}

func TestTokenHasStripesForm(t *testing.T) {
	t.Parallel()
	for token, takes := range map[string]bool{
		"pm_1MtwBwLkdIwHu7ix": true, "pm_card_visa": true, "pm_" + strings.Repeat("a", 61): true, "pm_" +
			strings.Repeat("a", 62): false,
		"pm_": false, "tok_visa": false, "": false, "pm_a b": false, "pm_a\n": false, "PM_a": false,
	} {
		ch := aCharge()
		ch.PaymentMethod = token
		if u := refuses(ch); (u == nil) != takes || u != nil && u.Member != "token" {
			t.Errorf("%q: %+v", token, u)
		}
	}
}

func TestAmountThatIsNoWholeKronaIsMalformed(t *testing.T) {
	t.Parallel()
	isk := replace(replace(intentIs("succeeded"), `"usd"`, `"isk"`), `"amount_received":12000`,
		`"amount_received":1250`)
	ch := aCharge()
	ch.Currency = "ISK"
	if f := inspect(ch, 200, []byte(isk)); f.state != unclear || f.reason != "answer malformed" {
		t.Fatalf("finding %+v", f)
	}
	ch.AmountMinor = 120
	if f := inspect(ch, 200, []byte(replace(isk, "1250", "12000"))); f.state != executed {
		t.Fatalf("finding %+v", f)
	}
}

func TestSettingThatIsWrongIsNamedAndNotRepeated(t *testing.T) {
	t.Parallel()
	good := Config{URL: "http://127.0.0.1:1", Secret: secret, WebhookSecrets: []string{webhookSecret},
		Limits: testLimits(), Now: today}
	for name, edit := range map[string]func(*Config){
		"STRIPE_URL":            func(c *Config) { c.URL = "https://canary@api.stripe.com" },
		"secret of Stripe":      func(c *Config) { c.Secret = "canary secret" },
		"webhook secret 2 of 2": func(c *Config) { c.WebhookSecrets = []string{webhookSecret, "whsec_canary"} },
		"must be whsec_":        func(c *Config) { c.WebhookSecrets = []string{"whsec_canary with spaces"} },
		"limit":                 func(c *Config) { c.Limits.InFlight = 0 },
	} {
		c := good
		edit(&c)
		_, err := New(c)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
