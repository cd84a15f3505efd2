package mockpsp

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
)

// faultRates draws random faults for requests that picked none.
type faultRates struct {
	mu   sync.Mutex
	rand *rand.Rand
	of   map[string]float64 // by rateName; absent is 0
}

// draw returns pm_ok or one of the faults, each with its rate. Nothing is drawn while all rates are 0, so that a run
// with a given seed does not depend on what was sent before the rates were set.
func (f *faultRates) draw() fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.of) == 0 {
		return faultOK
	}
	left := f.rand.Float64()
	for _, candidate := range randomFaults() {
		rate := f.of[candidate.rateName()]
		if left < rate {
			return candidate
		}
		left -= rate
	}
	return faultOK
}

func faultNames() []string {
	var names []string
	for _, candidate := range randomFaults() {
		names = append(names, candidate.rateName())
	}
	return names
}

// named returns all rates by name, also those that are 0.
func (f *faultRates) named() map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	named := map[string]float64{}
	for _, name := range faultNames() {
		named[name] = f.of[name]
	}
	return named
}

func (f *faultRates) set(rates map[string]float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of = rates
}

// checkFaultRates returns the rates above 0. A request meets one fault at most, so they share the unit interval.
func checkFaultRates(named map[string]*float64) (map[string]float64, error) {
	rates, err := checkRates(named, "fault", faultNames())
	if err != nil {
		return nil, err
	}
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	if sum > 1+1e-9 { // ten times 0.1 is not exactly 1
		return nil, invalid(fmt.Sprintf("the rates add up to %g, more than 1", sum))
	}
	return rates, nil
}

// checkDisorderRates returns the rates above 0. A webhook may meet several disorders, so each may be 1.
func checkDisorderRates(named map[string]*float64) (map[string]float64, error) {
	return checkRates(named, "webhook disorder", disorderNames())
}

// checkRates returns the rates above 0. Every error is a [refusal].
func checkRates(named map[string]*float64, what string, known []string) (map[string]float64, error) {
	unknown, rates := maps.Clone(named), map[string]float64{}
	for _, name := range known {
		rate, given := named[name]
		delete(unknown, name)
		if !given {
			continue
		}
		// Written so that NaN, which is in no order with anything, is refused too.
		if rate == nil || !(*rate >= 0 && *rate <= 1) {
			return nil, invalid(fmt.Sprintf("the rate of %s must be a number from 0 to 1", name))
		}
		if *rate > 0 {
			rates[name] = *rate
		}
	}
	for name := range unknown {
		return nil, invalid(fmt.Sprintf("there is no %s %q", what, name))
	}
	return rates, nil
}
