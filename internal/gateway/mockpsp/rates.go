package mockpsp

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
)

// faultRates draws random faults for requests that picked none.
type faultRates struct {
	mu   sync.Mutex
	rand *rand.Rand
	of   map[fault]float64 // absent is 0
}

func newFaultRates(rand *rand.Rand) *faultRates {
	return &faultRates{rand: rand, of: map[fault]float64{}}
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
		rate := f.of[candidate]
		if left < rate {
			return candidate
		}
		left -= rate
	}
	return faultOK
}

// named returns all rates by name, also those that are 0.
func (f *faultRates) named() map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	named := map[string]float64{}
	for _, candidate := range randomFaults() {
		named[candidate.rateName()] = f.of[candidate]
	}
	return named
}

// replace sets the named rates and all others to 0. It changes nothing when it returns an error, a [refusal].
func (f *faultRates) replace(named map[string]*float64) error {
	unknown := maps.Clone(named)
	next, sum := map[fault]float64{}, 0.0
	for _, candidate := range randomFaults() {
		name := candidate.rateName()
		rate, given := named[name]
		delete(unknown, name)
		if !given {
			continue
		}
		// Written so that NaN, which is in no order with anything, is refused too.
		if rate == nil || !(*rate >= 0 && *rate <= 1) {
			return invalid(fmt.Sprintf("the rate of %s must be a number from 0 to 1", name))
		}
		if *rate > 0 {
			next[candidate] = *rate
			sum += *rate
		}
	}
	for name := range unknown {
		return invalid(fmt.Sprintf("there is no fault %q", name))
	}
	if sum > 1+1e-9 { // ten times 0.1 is not exactly 1
		return invalid(fmt.Sprintf("the rates add up to %g, more than 1", sum))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of = next
	return nil
}

func (s *Server) getFaults(w http.ResponseWriter, _ *http.Request) {
	jsonReply(http.StatusOK, struct {
		Rates map[string]float64 `json:"rates"`
	}{s.rates.named()}).deliver(w)
}

// putFaults takes any Content-Type: people type this with curl -d.
func (s *Server) putFaults(w http.ResponseWriter, r *http.Request) {
	if err := s.replaceFaults(w, r); err != nil {
		s.refuse(err).deliver(w)
		return
	}
	s.getFaults(w, r)
}

func (s *Server) replaceFaults(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	var in struct {
		Rates map[string]*float64 `json:"rates"`
	}
	if err := parseStrictly(body, &in); err != nil {
		return err
	}
	if in.Rates == nil {
		return invalid("rates is required: an object of fault names and their rates")
	}
	return s.rates.replace(in.Rates)
}
