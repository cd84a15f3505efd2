package mockpsp

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
)

// The members of GET|PUT /_faults. A dialect may have another one.
const (
	faultsMember    = "rates"
	disordersMember = "webhooks"
)

// Rates are the probabilities of faults, each from 0 to 1.
type Rates struct {
	member string // of GET|PUT /_faults
	what   string // they are of, for people
	names  []string

	mu   sync.Mutex
	rand *rand.Rand
	of   map[string]float64 // absent is 0
}

// AddRates adds the faults that only another dialect has, under the name of the dialect. A request may meet several of
// them. It is called before the server serves.
func (s *Server) AddRates(member string, names []string) *Rates {
	added := &Rates{member: member, what: member + " fault", names: names, rand: split(s.config.Rand)}
	s.rates = append(s.rates, added)
	return added
}

func newFaultRates(source *rand.Rand) *Rates {
	return &Rates{member: faultsMember, what: "fault", names: faultNames(), rand: source}
}

func newDisorderRates(source *rand.Rand) *Rates {
	return &Rates{member: disordersMember, what: "webhook disorder", names: disorderNames(), rand: source}
}

// split returns another source, so that its draws and those of the first do not disturb each other.
func split(source *rand.Rand) *rand.Rand {
	return rand.New(rand.NewPCG(source.Uint64(), source.Uint64()))
}

// DrawFault draws for a request that picked none. It returns pm_ok or another test token.
func (s *Server) DrawFault() string { return "pm_" + s.faults.one() }

// DrawElsewhere draws for what others do at a door. Nobody waits for an answer there that could get lost, so the only
// fault is that the PSP books late. It returns pm_ok or pm_booked_late.
func (s *Server) DrawElsewhere() string {
	if s.faults.Hit(faultBookedLate.rateName()) {
		return string(faultBookedLate)
	}
	return string(faultOK)
}

// one returns the name of one fault, each with its rate, or else "ok". Nothing is drawn while all rates are 0, so that
// a run with a given seed does not depend on what was sent before the rates were set.
func (r *Rates) one() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) > 0 {
		left := r.rand.Float64()
		for _, name := range r.names {
			if left < r.of[name] {
				return name
			}
			left -= r.of[name]
		}
	}
	return "ok"
}

// each draws once for each fault, also where the rate is 0, so that one rate does not change what another hits. Nothing
// is drawn while all are 0.
func (r *Rates) each() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	drawn := map[string]bool{}
	if len(r.of) == 0 {
		return drawn
	}
	for _, name := range r.names {
		if r.rand.Float64() < r.of[name] {
			drawn[name] = true
		}
	}
	return drawn
}

// Hit draws whether a fault strikes. Nothing is drawn while its rate is 0.
func (r *Rates) Hit(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rate := r.of[name]
	return rate > 0 && r.rand.Float64() < rate
}

// Coin draws one of two, each with the same probability.
func (r *Rates) Coin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(2) == 0
}

// named returns all rates by name, also those that are 0.
func (r *Rates) named() map[string]float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	named := map[string]float64{}
	for _, name := range r.names {
		named[name] = r.of[name]
	}
	return named
}

func (r *Rates) set(rates map[string]float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = rates
}

// check returns the rates above 0. Every error is an [apiError].
func (r *Rates) check(named map[string]*float64) (map[string]float64, error) {
	unknown, rates, sum := maps.Clone(named), map[string]float64{}, 0.0
	for _, name := range r.names {
		rate, given := named[name]
		delete(unknown, name)
		if !given {
			continue
		}
		// Written so that NaN, which is in no order with anything, is refused too.
		if rate == nil || !(*rate >= 0 && *rate <= 1) {
			return nil, invalid(fmt.Sprintf("the rate of %s must be a number from 0 to 1", name))
		}
		if sum += *rate; *rate > 0 {
			rates[name] = *rate
		}
	}
	for name := range unknown {
		return nil, invalid(fmt.Sprintf("there is no %s %q", r.what, name))
	}
	// A request meets one of the PSP's own faults at most, so they share the unit interval. Ten times 0.1 is not
	// exactly 1.
	if r.member == faultsMember && sum > 1+1e-9 {
		return nil, invalid(fmt.Sprintf("the rates add up to %g, more than 1", sum))
	}
	return rates, nil
}

func (s *Server) getFaults(w http.ResponseWriter, _ *http.Request) {
	all := map[string]map[string]float64{}
	for _, rates := range s.rates {
		all[rates.member] = rates.named()
	}
	jsonReply(http.StatusOK, all).Deliver(w)
}

// putFaults takes any Content-Type: people type this with curl -d. A member that is there replaces all of its rates,
// one that is left out leaves them as they were. The rates of another dialect are part of "rates" in this: no faults
// means none of either.
func (s *Server) putFaults(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err == nil {
		err = s.parseFaults(body)
	}
	if err != nil {
		s.refuse(err).Deliver(w)
		return
	}
	s.getFaults(w, r)
}

func (s *Server) parseFaults(body []byte) error {
	var in map[string]map[string]*float64
	if err := parseStrictly(body, &in); err != nil {
		return err
	}
	for name, member := range in {
		if !slices.ContainsFunc(s.rates, func(r *Rates) bool { return r.member == name }) {
			return invalid(fmt.Sprintf("the body has an unknown member at %q", "/"+name))
		}
		if member == nil {
			return invalid(name + " must be an object of names and their rates")
		}
	}
	if len(in) == 0 {
		return invalid("rates or webhooks is required: an object of names and their rates")
	}
	return s.setFaults(in)
}

// setFaults changes all members that are there or, when it returns an error, none.
func (s *Server) setFaults(in map[string]map[string]*float64) error {
	checked := map[*Rates]map[string]float64{}
	for _, rates := range s.rates {
		_, given := in[rates.member]
		if rates != s.disorders && !given {
			_, given = in[faultsMember]
		}
		if !given {
			continue
		}
		named, err := rates.check(in[rates.member])
		if err != nil {
			return err
		}
		checked[rates] = named
	}
	for rates, named := range checked {
		rates.set(named)
	}
	return nil
}
