package plan

import (
	"maps"
	"slices"
	"strings"
)

// Mix is how often the PSP fails, and its webhooks go astray: shares of 1, by the names that PUT /_faults has.
type Mix struct {
	Rates    map[string]float64 `json:"rates"`
	Webhooks map[string]float64 `json:"webhooks"`
	Stripe   map[string]float64 `json:"stripe,omitempty"` // of that dialect alone; a native PSP knows none
}

// The middle of each rate. A seed makes it up to half as much more, or less. Stuck charges and forgotten keys are not
// drawn, only ordered by clients. One of the blows delays charges beyond what the PSP promises, and must see which
// charges these are: a PSP that is too late and has forgotten the key charges twice.
var (
	middleRates = map[string]float64{
		"timeout_charged": .015, "timeout_not_charged": .015, "500_charged": .02, "500_not_charged": .02,
		"reset_charged": .02,
		"late_charge":   .015, "declined": .03, "slow": .03, "wrong_amount": .002, "silent_charged": .01,
		"booked_late": .03,
	}
	middleStripe = map[string]float64{
		"create_500_saved": .01, "rate_limited": .015, "conflict": .02, "key_forgotten": .02, "requires_action": .02,
		"unknown_events": .1, "double_events": .1, "cancel_lost": .15, "cancel_500": .15, "read_500": .04,
	}
	middleDisorder = map[string]float64{"duplicate": .1, "reorder": .1, "delay": .1, "drop": .1, "forge": .05}
)

// oddRate is that of each fault of a PSP that errs (see Odd): they are mostly ordered by clients.
const oddRate = .0005

// Mix draws the rates of the seed.
func (p Plan) Mix() Mix {
	r := p.stream(mixStream, 0, 0)
	mix := Mix{Rates: map[string]float64{}, Webhooks: map[string]float64{}}
	all := []struct{ from, into map[string]float64 }{{rates(), mix.Rates}, {middleDisorder, mix.Webhooks}}
	if p.Stripe {
		mix.Stripe = map[string]float64{}
		all = append(all, struct{ from, into map[string]float64 }{middleStripe, mix.Stripe})
	}
	for _, of := range all {
		for _, name := range slices.Sorted(maps.Keys(of.from)) {
			of.into[name] = of.from[name] * (0.5 + r.Float64())
		}
	}
	return mix
}

// rates are the middle ones, of all faults.
func rates() map[string]float64 {
	all := maps.Clone(middleRates)
	for _, fault := range Odd() {
		all[strings.TrimPrefix(fault, "pm_")] = oddRate
	}
	return all
}

// Calm is a PSP without faults.
func (p Plan) Calm() Mix {
	calm := Mix{Rates: rates(), Webhooks: maps.Clone(middleDisorder)}
	if p.Stripe {
		calm.Stripe = maps.Clone(middleStripe)
	}
	for _, of := range []map[string]float64{calm.Rates, calm.Webhooks, calm.Stripe} {
		for name := range of {
			of[name] = 0
		}
	}
	return calm
}

// Odd are the faults of a PSP that does something else than it was asked for, or writes what is hard to read. A
// forgotten key is not among them: a PSP may forget. Nor is pm_huge_member: each list that has one is asked for in many
// small pages, and a scan of the run would not come to its end.
func Odd() []string {
	return []string{
		"pm_wrong_currency", "pm_wrong_reference", "pm_no_reference", "pm_wrong_key", "pm_wrong_account",
		"pm_wrong_charge", "pm_wrong_id",
		"pm_charged_twice", "pm_decline_after_charge", "pm_decline_after_wrong_amount",
		"pm_duplicate_member", "pm_invalid_utf8", "pm_large_metadata", "pm_unknown_status",
	}
}

// oddEvery is how often an errand of a client pays with one of them.
const oddEvery = 15

// oddMethod is that of a client's n-th errand, if it is its turn. They come in order, and each client begins with
// another one, so that a short run meets all of them.
func oddMethod(client, n int) (method string, is bool) {
	turn := n + client
	if turn%oddEvery != 0 {
		return "", false
	}
	all := Odd()
	return all[(turn/oddEvery+client)%len(all)], true
}
