package psp

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
)

// Dialect is what the suite must know of a provider. A third one is a further value in dialects, and nothing else.
type Dialect struct {
	Name string
	// Account begins the names of all accounts.
	Account string
	// Client makes a client of the provider at a URL.
	Client func(url string, secrets []string, l gateway.Limits, now func() time.Time) (gateway.PSP, error)
	// Secrets are two signing secrets. The mock signs with the first.
	Secrets [2]string
	// StepOf names the step of a request, or is "".
	StepOf func(*http.Request) string
	// ChargeSteps are the steps of a charge in their order, and RefundSteps those of a refund.
	ChargeSteps, RefundSteps []Step
	// Entries are the steps with which a method of the port begins.
	Entries Entries
	// Charges and Refunds are the faults of the provider itself.
	Charges, Refunds []Fault
	// Start starts the provider's mock, which tells of its events at a URL.
	Start func(shared mockpsp.Config, webhookURL string) (*mock, error)
	// Rates is the member of GET /_faults that has the provider's own faults.
	Rates string
	// Events are the ways in which a webhook may arrive.
	Events []Fault
	// RawCharge is a request that makes a charge, or its object, without the client.
	RawCharge Raw
	// Foreign makes a charge that Payonce did not make. It is nil if there are none.
	Foreign func(w *world)
	// Suffix is what the dialect adds to a key at most.
	Suffix string
}

// Step is a request of an operation.
type Step struct {
	Name string
	// Token is the payment method or the reason that leads to this step.
	Token string
	// Late is another one that leads to this step, and whose movement lands later unless it is ended. It may be "".
	Late string
	// Answer says that the answer repeats what was asked for, so that it can be altered.
	Answer bool
	// Account says that it names the account, too. Known says that the id is known before.
	Account, Known bool
}

// Entries are the names of the steps with which the methods of the port begin.
type Entries struct{ Prepare, Charge, Refund, LookupCharge, LookupRefund string }

// Fault is one thing that goes wrong.
type Fault struct {
	Name   string // as the grid has it
	Token  string // the payment method of the charge, or the reason of the refund
	Amount int64  // of the charge, if it matters
	Rates  string // of PUT /_faults, while the request is sent
	Seed   uint64 // of chance
	Cut    string // the fault on the wire, and
	Step   string // the step at which it strikes

	Forgets bool // the key is forgotten, so a request that is sent again is executed again
	Twice   bool // the PSP itself moves the money twice under one key
	WrongID bool // the answer has another id than the ledger
	Fails   bool // what has succeeded fails later
	Open    bool // nobody but an operator can find out
	Long    bool // takes longer than a second
}

// Raw is a request of the provider's API. It has no key and no secret yet.
type Raw struct {
	Path, Body string
	Header     map[string]string
}

// named are faults without a token.
func named(names ...string) (faults []Fault) {
	for _, name := range names {
		faults = append(faults, Fault{Name: name})
	}
	return faults
}

// eventFaults are the ways that each provider's webhooks have.
func eventFaults() []Fault {
	return named("succeeded", "declined", "duplicate", "forge", "stale", "changed body", "no signature",
		"secret replaced", "ten minutes late")
}

func tokens(names ...string) (faults []Fault) {
	for _, name := range names {
		faults = append(faults, Fault{Name: name, Token: name})
	}
	return faults
}

// with returns the faults, of which some are changed.
func with(faults []Fault, change func(*Fault), names ...string) []Fault {
	for _, name := range names {
		found := false
		for i := range faults {
			if faults[i].Name == name {
				change(&faults[i])
				found = true
			}
		}
		if !found {
			panic("no fault " + name)
		}
	}
	return faults
}

func forgets(f *Fault) { f.Forgets = true }
func twice(f *Fault)   { f.Twice = true }
func wrongID(f *Fault) { f.WrongID = true }
func fails(f *Fault)   { f.Fails = true }
func open(f *Fault)    { f.Open = true }

func dialects() []*Dialect { return []*Dialect{nativeDialect(), stripeDialect()} }

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
	refund := gateway.Refund{AmountMinor: minor, Currency: currency}
	if u, again := w.client.Traits().Refuses(ch), w.client.Traits().Refuses(refund); (u == nil) != (again == nil) {
		w.t.Errorf("%d %s: a charge is refused as %+v, a refund as %+v", minor, currency, u, again)
	} else if u != nil {
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
