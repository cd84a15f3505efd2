package mockpsp

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func (p *running) putFaults(body string) result {
	return p.send(p.t.Context(), http.MethodPut, "/_faults", body,
		header{"Authorization": "", "Content-Type": "application/x-www-form-urlencoded"})
}

// impatient lets every fault end at once, and seeds the draws.
func impatient(seed uint64) func(*Config) {
	return func(c *Config) {
		c.HangLimit = time.Millisecond
		c.Rand = rand.New(rand.NewPCG(seed, seed))
	}
}

func TestRandomFaultsAreReproducedByTheSeed(t *testing.T) {
	t.Parallel()
	run := func(seed uint64, warmUp int) []fault {
		p := setup(t, impatient(seed))
		for i := range warmUp {
			p.charge(fmt.Sprintf("warm-%d", i), "pm_ok")
		}
		rates := make([]string, 0, len(randomFaults()))
		for _, f := range randomFaults() {
			rates = append(rates, fmt.Sprintf("%q:0.03", f.rateName()))
		}
		p.putFaults(`{"rates":{`+strings.Join(rates, ",")+`}}`).want(t, http.StatusOK, "")
		var faults []fault
		for i := range 400 {
			key := fmt.Sprintf("key-%d", i)
			p.charge(key, "pm_ok")
			faults = append(faults, p.calls(key).Requests[0].Fault)
		}
		return faults
	}
	first := run(7, 0)
	if !slices.Equal(first, run(7, 5)) {
		t.Error("the same seed gives other faults, or calls before the rates were set count")
	}
	if slices.Equal(first, run(8, 0)) {
		t.Error("another seed gives the same faults")
	}
	for _, f := range append(randomFaults(), faultOK) {
		if !slices.Contains(first, f) {
			t.Errorf("%s was never drawn", f)
		}
	}
}

func TestRatesDoNotApplyToARequestThatNamesAFault(t *testing.T) {
	t.Parallel()
	p := setup(t, impatient(1))
	p.putFaults(`{"rates":{"declined":1}}`).want(t, http.StatusOK, "")
	p.charge("key-1", "pm_slow").want(t, http.StatusCreated, "")
	p.charge("key-2", "pm_ok").want(t, http.StatusPaymentRequired, "")
	p.putFaults(`{"rates":{"500_not_charged":1}}`).want(t, http.StatusOK, "")
	charge := p.list("/v1/charges?idempotencyKey=key-1").Data[0]
	p.refund(charge.ID, "key-3", "any", 10).want(t, http.StatusInternalServerError, "internal_error")
	p.charge("key-1", "pm_slow").want(t, http.StatusCreated, "") // replays meet no faults
	p.putFaults(`{"rates":{}}`).want(t, http.StatusOK, "")
	p.refund(charge.ID, "key-3", "any", 10).want(t, http.StatusCreated, "") // drawn again, since nothing had happened
}

const (
	slowByHalf = `"rates":{"500_charged":0,"500_not_charged":0,"booked_late":0,"charged_twice":0,"decline_after_charge":0,"decline_after_wrong_amount":0,` +
		`"declined":0,"duplicate_member":0,"forgotten_key":0,"huge_member":0,"invalid_utf8":0,"large_metadata":0,"late_charge":0,` +
		`"no_reference":0,"reset_charged":0,"silent_charged":0,"slow":0.5,"stuck":0,"timeout_charged":0,"timeout_not_charged":0,` +
		`"unknown_status":0,"wrong_account":0,"wrong_amount":0,"wrong_charge":0,"wrong_currency":0,"wrong_id":0,"wrong_key":0,"wrong_reference":0}`
	inOrder     = `"webhooks":{"delay":0,"drop":0,"duplicate":0,"forge":0,"reorder":0}`
	allTwice    = `"webhooks":{"delay":0,"drop":0,"duplicate":1,"forge":0,"reorder":0}`
	droppedMore = `"webhooks":{"delay":0,"drop":0.5,"duplicate":0,"forge":0,"reorder":0}`
)

func TestPutReplacesAllRates(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.putFaults(`{"rates":{"timeout_charged":0.1,"stuck":0.2}}`)
	answer := p.putFaults(`{"rates":{"slow":0.5}}`)
	want := "{" + slowByHalf + "," + inOrder + "}"
	if answer.status != http.StatusOK || answer.body != want || p.get("/_faults").body != want {
		t.Errorf("PUT answers %d %s\nGET answers %s", answer.status, answer.body, p.get("/_faults").body)
	}
}

func TestPutLeavesAloneWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for _, step := range []struct{ put, want string }{
		{`{"rates":{"slow":0.5}}`, slowByHalf + "," + inOrder},
		{`{"webhooks":{"duplicate":1}}`, slowByHalf + "," + allTwice},
		{`{"rates":{"slow":0.5}}`, slowByHalf + "," + allTwice},
		{`{"webhooks":{"drop":0.5}}`, slowByHalf + "," + droppedMore},
		{`{"webhooks":{}}`, slowByHalf + "," + inOrder},
		{`{"rates":{},"webhooks":{"duplicate":1}}`, strings.Replace(slowByHalf, "0.5", "0", 1) + "," + allTwice},
	} {
		if answer := p.putFaults(step.put); answer.status != http.StatusOK || answer.body != "{"+step.want+"}" {
			t.Errorf("%s: %d %s", step.put, answer.status, answer.body)
		}
	}
}

func TestBadRatesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.putFaults(`{"rates":{"slow":0.5},"webhooks":{"drop":0.5}}`)
	before := p.get("/_faults").body
	for _, body := range []string{
		``, `{}`, `{"rates":null}`, `{"rates":{"slow":null}}`, `{"rates":{"slow":"0.1"}}`, `{"rates":{"slow":-0.1}}`,
		`{"rates":{"slow":1.1}}`, `{"rates":{"slow":0.6,"stuck":0.5}}`, `{"rates":{"ok":0.1}}`,
		`{"rates":{"pm_slow":0.1}}`,
		`{"rates":{"slow":0.1},"chaos":{}}`, `null`,
		`{"rates":{"slow":0.1},"webhooks":null}`, `{"rates":{"slow":0.1},"webhooks":{"drop":2}}`,
		`{"webhooks":{"drop":null}}`,
		`{"rates":{"slow":2},"webhooks":{"drop":0.1}}`, `{"webhooks":{"stale":0.1}}`,
		`{"webhooks":{"drop":0.1,"drop":0.2}}`, `{"rates":{"slow":0.1,"slow":0.2}}`,
	} {
		p.putFaults(body).want(t, http.StatusBadRequest, "invalid_request")
	}
	if after := p.get("/_faults").body; after != before {
		t.Errorf("changed to %s", after)
	}
	p.putFaults(`{"rates":{"timeout_charged":0.1,"timeout_not_charged":0.1,"500_charged":0.1,"500_not_charged":0.1,"reset_charged":0.1,`+
		`"late_charge":0.1,"declined":0.1,"slow":0.1,"wrong_amount":0.1,"silent_charged":0.1}}`).want(
		t, http.StatusOK, "")
}
