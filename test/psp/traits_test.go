package psp

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// An amount is the same amount of money on both sides, whatever the provider counts in. What the provider can never
// take is refused before anything is sent.
func TestAmountsAreTheSameMoney(t *testing.T) {
	t.Parallel()
	digits := map[string]int{
		"USD": 2, "EUR": 2, "JPY": 0, "KRW": 0, "ISK": 0, "UGX": 0, "MGA": 2, "KWD": 3, "BHD": 3, "IQD": 3, "HUF": 2,
		"TWD": 2, "CLP": 0, "XOF": 0,
	}
	for _, d := range dialects() {
		for currency, own := range digits {
			t.Run(d.Name+"/"+currency, func(t *testing.T) {
				t.Parallel()
				w := setup(t, d)
				theirs, differs := w.client.Traits().Exponents[currency]
				if !differs {
					theirs = own
				}
				for _, minor := range []int64{1200, 1000, 1234, 1, math.MaxInt64} {
					w.checkAmount(currency, minor, own, theirs)
				}
			})
		}
	}
}

func (w *world) checkAmount(currency string, minor int64, own, theirs int) {
	w.t.Helper()
	ch := aCharge(w.dialect)
	ch.Currency, ch.AmountMinor = currency, minor
	ch.Key = fmt.Sprintf("key-of-the-amount-%d-%s", minor, currency)
	before, sent := w.moved(), w.wire.sent(w.dialect.Entries.Charge)+w.wire.sent(w.dialect.Entries.Prepare)
	if u := w.client.Traits().Refuses(ch); u != nil {
		if u.Detail == "" || u.Member != gateway.AmountMember && u.Member != gateway.CurrencyMember {
			w.t.Errorf("%d %s is refused as %+v", minor, currency, u)
		}
		if _, refused := w.client.Prepare(w.t.Context(), ch); w.client.Traits().TwoSteps && refused == nil {
			w.t.Errorf("%d %s is refused, and made", minor, currency)
		}
		if now := w.wire.sent(w.dialect.Entries.Charge) + w.wire.sent(w.dialect.Entries.Prepare); now != sent {
			w.t.Errorf("%d %s is refused, and sent", minor, currency)
		}
		return
	}
	stored, o := w.perform(ch)
	if d, ok := o.(gateway.Declined); ok && d.Code == "amount_too_small" && minor == 1 && w.moved() == before {
		return // less than the provider takes
	}
	if _, ok := o.(gateway.Succeeded); !ok {
		if minor != math.MaxInt64 || w.moved() != before {
			w.t.Errorf("%d %s: %T %+v", minor, currency, o, o)
		}
		return // more than any provider takes
	}
	last := w.ledger()[before]
	if float64(last.AmountMinor)*math.Pow10(own) != float64(minor)*math.Pow10(theirs) {
		w.t.Errorf("%d %s is %d for the provider, who counts %d digits", minor, currency, last.AmountMinor, theirs)
	}
	found, ok := w.client.Lookup(w.t.Context(), stored, gateway.EndNothing).(gateway.Found)
	if !ok || found.Records[0].AmountMinor != minor {
		w.t.Errorf("%d %s is found as %+v", minor, currency, found)
	}
}

// The token that is no payment method of the provider is refused before anything is sent.
func TestTokensOfOtherProvidersAreRefused(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		ch := aCharge(d)
		ch.PaymentMethod = "tok_of_another_provider"
		if u := setup(t, d).client.Traits().Refuses(ch); u == nil || u.Member != gateway.TokenMember {
			t.Errorf("%s: %+v", d.Name, u)
		}
	}
}

// The suite plays each fault that the mock can draw. A new one must be added to the rows.
func TestTheSuiteKnowsEachFault(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		rates := read[map[string]map[string]float64](t, setup(t, d).admin(http.MethodGet, "/_faults", ""))
		if len(rates[d.Rates]) == 0 {
			t.Errorf("%s: the mock has no faults in %q", d.Name, d.Rates)
		}
		all := append(slices.Clone(d.Charges), d.Refunds...)
		for name := range rates[d.Rates] {
			knows := func(f Fault) bool { return f.Name == "pm_"+name || strings.Contains(f.Rates, `"`+name+`"`) }
			if !slices.ContainsFunc(all, knows) {
				t.Errorf("%s: no row plays %s", d.Name, name)
			}
		}
	}
}
