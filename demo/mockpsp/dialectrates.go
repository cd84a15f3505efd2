package mockpsp

import (
	"math/rand/v2"
	"sync"
)

// DialectRates are random faults that only another dialect has. They are a member of their own in GET|PUT /_faults.
// A request may meet several of them, so each rate may be 1.
type DialectRates struct {
	member string
	names  []string

	mu   sync.Mutex
	rand *rand.Rand
	of   map[string]float64 // absent is 0
}

// AddRates adds the rates of a dialect to /_faults, under the name of the dialect. It is called before the server
// serves.
func (s *Server) AddRates(member string, names []string) *DialectRates {
	s.dialectRates = &DialectRates{member: member, names: names, rand: split(s.config.Rand)}
	return s.dialectRates
}

// Hit draws whether the fault strikes. Nothing is drawn while its rate is 0.
func (d *DialectRates) Hit(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	rate := d.of[name]
	return rate > 0 && d.rand.Float64() < rate
}

func (d *DialectRates) is(member string) bool { return d != nil && member == d.member }

func (d *DialectRates) named() map[string]float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	named := map[string]float64{}
	for _, name := range d.names {
		named[name] = d.of[name]
	}
	return named
}

// setNamed replaces the rates, if the body has their member. If it has not, and end is set, no fault is left.
func (d *DialectRates) setNamed(in map[string]map[string]*float64, end bool) error {
	if d == nil || in[d.member] == nil && !end {
		return nil
	}
	rates, err := checkRates(in[d.member], d.member+" fault", d.names)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of = rates
	return nil
}

// Coin draws one of two, each with the same probability.
func (d *DialectRates) Coin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(2) == 0
}
