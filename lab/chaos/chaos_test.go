package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/lab/chaos/plan"
	"payonce/lab/history"
	"payonce/lab/invariants"
)

func TestUnknownBlowIsRefused(t *testing.T) {
	t.Parallel()
	for name, environment := range map[string]map[string]string{
		"blow": {"ONLY": "kill-api,kill-cat"}, "target": {"TARGET": "nobody"}, "duration": {"DURATION": "1s"},
		"clients": {"CLIENTS": "0"}, "dialect": {"PSP": "paypal"},
		"dialect of naive":           {"PSP": "stripe", "TARGET": "naive"},
		"dialect on several servers": {"PSP": "stripe", "SERVERS": "3"},
	} {
		if _, err := loadSettings(func(name string) string { return environment[name] }); err == nil {
			t.Errorf("%s: taken without a word", name)
		}
	}
}

func TestNewSeedIsDrawnAndAGivenOneIsKept(t *testing.T) {
	t.Parallel()
	drawn, err := loadSettings(func(string) string { return "" })
	if err != nil || drawn.Seed == 0 {
		t.Errorf("drew %d (%v)", drawn.Seed, err)
	}
	given, err := loadSettings(func(name string) string { return map[string]string{"SEED": "42"}[name] })
	if err != nil || given.Seed != 42 {
		t.Errorf("took %d (%v)", given.Seed, err)
	}
}

// A run that has hit everything but one thing fails for that one.
func TestRunFailsForWhatNeverHappened(t *testing.T) {
	t.Parallel()
	must := mustHappen(longRun, false, nil)
	for _, missing := range must {
		counts := map[string]map[string]int{}
		for _, r := range must {
			if counts[r.group] == nil {
				counts[r.group] = map[string]int{}
			}
			if r != missing {
				counts[r.group][r.name] = 1
			}
		}
		found := never(counts, must)
		if len(found) != 1 || found[0].Invariant != "sometimes" || found[0].Where != missing.group+": "+missing.name {
			t.Errorf("without %v it finds %v", missing, found)
		}
	}
}

// What only a native PSP does is not asked of a run at Stripe, and the other way round.
func TestEachDialectHasThingsOfItsOwn(t *testing.T) {
	t.Parallel()
	must := map[bool]map[required]bool{}
	for _, stripe := range []bool{false, true} {
		must[stripe] = map[required]bool{}
		for _, r := range mustHappen(longRun, stripe, nil) {
			must[stripe][r] = true
		}
	}
	for r, stripe := range map[required]bool{
		{"entry", "pm_charged_twice", normalRun}: false, {"edge", "failed_retryable → completed", longRun}: false,
		{"psp call", "cancel", quickRun}: true, {"entry", "pm_bank_debit_fails", quickRun}: true,
	} {
		if !must[stripe][r] || must[!stripe][r] {
			t.Errorf("%v: stripe %v, native %v", r, must[true][r], must[false][r])
		}
	}
}

func TestShorterRunMustHitLess(t *testing.T) {
	t.Parallel()
	quick, normal, long := len(mustHappen(quickRun, false, nil)), len(mustHappen(normalRun, false, nil)),
		len(mustHappen(longRun, false, nil))
	if quick >= normal || normal >= long {
		t.Errorf("%d, %d and %d things", quick, normal, long)
	}
	if n := len(mustHappen(quickRun, false, []plan.BlowKind{plan.KillReconciler})); n != quick-1 {
		t.Errorf("a blow that is left out must fall all the same: %d of %d", n, quick)
	}
}

func TestCounterWithLabelsIsAHit(t *testing.T) {
	t.Parallel()
	group := map[string]int{`commits_total{op="a"}`: 2, `commits_total{op="b"}`: 3, "commits_total_of_others": 5}
	if n := hits(group, "commits_total"); n != 5 {
		t.Errorf("%d hits", n)
	}
}

// seen are books of one order, with the given charges and answers.
func seen(t *testing.T, charges int, answers ...history.Operation) books {
	t.Helper()
	p := plan.Plan{Seed: 7, Clients: 1}
	var e plan.Errand
	for n := 0; e.Kind != plan.Pay; n++ {
		e = p.Errand(0, n)
	}
	var ledger invariants.Ledger
	for i := range charges {
		ledger.Charges = append(ledger.Charges, invariants.Entry{
			ID: strings.Repeat("x", i+1), Account: e.Tenant, AmountCents: e.Order.Amount, Status: "succeeded",
		})
	}
	body := []byte(e.Order.Body(0))
	operations := []history.Operation{{Tenant: e.Tenant, Route: history.PaymentsRoute, Key: e.Key, Body: body}}
	for i, o := range answers {
		o.Tenant, o.Route, o.Key, o.Body, o.Return = e.Tenant, history.PaymentsRoute, e.Key, body, time.Duration(i+1)
		operations = append(operations, o)
	}
	return keepBooks(operations, &ledger, map[string]int64{"x": e.Order.Number}, nil, nil)
}

// The PSP may charge twice of its own accord, and tell the id of the second charge where it is asked for another one.
func TestStrayChargeCountsWhereItsOwnOrderHasIt(t *testing.T) {
	t.Parallel()
	const number = 7
	ledger := invariants.Ledger{Charges: []invariants.Entry{
		{ID: "first", Account: "acme", AmountCents: number * 20, Status: "succeeded"},
		{ID: "further", Account: "acme", AmountCents: number * 20, Status: "succeeded", Fault: "pm_charged_twice"},
	}}
	asked := []history.Operation{{Tenant: "acme", Route: history.PaymentsRoute, Key: "k",
		Body: []byte(`{"amountCents":140}`)}}
	for listedFor, twice := range map[int64]int{number: 1, number + 1: 0} {
		b := keepBooks(asked, &ledger, map[string]int64{"first": number, "further": listedFor},
			map[string]bool{"further": true}, nil)
		if b.ChargedTwice != twice {
			t.Errorf("listed for %d: charged twice %d times, want %d", listedFor, b.ChargedTwice, twice)
		}
	}
}

// A charge of another amount after the release of its key is a case for a person, and 410 says so.
func TestClientWhoIsToldToAskAPersonIsNotTold(t *testing.T) {
	t.Parallel()
	asked := told(http.StatusGone, "g", "i")
	asked.Tenant, asked.Route, asked.Key = "acme", history.PaymentsRoute, "k"
	asked.Body, asked.Return = []byte(`{"amountCents":140}`), 1
	for amount, failed := range map[int64]int{140: 1, 141: 0} {
		b := keepBooks([]history.Operation{asked}, &invariants.Ledger{Charges: []invariants.Entry{
			{ID: "late", Account: "acme", AmountCents: amount, Status: "succeeded"},
		}}, map[string]int64{}, nil, nil)
		if b.ChargedToldFailed != failed || b.Orders != 1 {
			t.Errorf("charged %d: %+v", amount, b)
		}
	}
}

func told(status int, body, intent string) history.Operation {
	return history.Operation{Status: status, Answer: []byte(body), Intent: intent}
}

func TestBooksTellWhatAClientWouldComplainOf(t *testing.T) {
	t.Parallel()
	paid, failed := told(http.StatusCreated, "a", "i"), told(http.StatusBadGateway, "no", "i")
	for name, c := range map[string]struct {
		got  books
		want books
	}{
		"all is well":        {seen(t, 1, failed, paid, paid), books{Orders: 1, Paid: 1}},
		"nothing came of it": {seen(t, 0, failed), books{Orders: 1}},
		"declined":           {seen(t, 0, told(http.StatusPaymentRequired, "d", "i")), books{Orders: 1, Declined: 1}},
		"charged twice": {seen(t, 3, paid),
			books{Orders: 1, Paid: 1, ChargedTwice: 1, SurplusCharges: 2, Lost: 2}},
		"told it had failed": {seen(t, 1, failed), books{Orders: 1, ChargedToldFailed: 1}},
		"never charged":      {seen(t, 0, paid), books{Orders: 1, Paid: 1, ToldPaidNotCharged: 1}},
		"two answers": {seen(t, 1, paid, told(http.StatusCreated, "b", "i")),
			books{Orders: 1, Paid: 1, DifferentReplays: 1}},
		"another's answer": {seen(t, 1, paid, told(http.StatusCreated, "a", "j")),
			books{Orders: 1, Paid: 1, OthersAnswer: 1}},
		"told to ask a person": {seen(t, 1, told(http.StatusGone, "g", "i")),
			books{Orders: 1, ChargedToldFailed: 1}},
		"still being decided": {seen(t, 1, told(http.StatusAccepted, "p", "i")), books{Orders: 1}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, not %+v", name, c.got, c.want)
		}
	}
}

func TestLedgerIsReadByTenant(t *testing.T) {
	t.Parallel()
	account := func(tenant string) string { return "acct_" + tenant }
	ledger := &invariants.Ledger{Charges: []invariants.Entry{{Account: "acct_acme"}, {Account: "acct_nobody"}}}
	got := byTenant(ledger, account)
	if got.Charges[0].Account != "acme" || got.Charges[1].Account != "acct_nobody" ||
		ledger.Charges[0].Account != "acct_acme" {
		t.Errorf("%+v, of %+v", got, ledger)
	}
}
