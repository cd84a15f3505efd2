package mockpsp

import (
	"math/rand/v2"
	"strings"
	"sync"
)

// disorder is what goes wrong on a webhook's way.
type disorder string

const (
	disorderDuplicate disorder = "duplicate" // sent twice, at about the same time
	disorderReorder   disorder = "reorder"   // held back until a later one has been sent
	disorderDelay     disorder = "delay"     // sent after a further pause
	disorderDrop      disorder = "drop"      // never sent
	disorderForge     disorder = "forge"     // a forgery of it is sent before it
	disorderStale     disorder = "stale"     // signed ten minutes ago; by hand only
)

// randomDisorders are those that can be drawn, in the order in which they are.
func randomDisorders() []disorder {
	return []disorder{disorderDuplicate, disorderReorder, disorderDelay, disorderDrop, disorderForge}
}

// disorderSet holds the disorders of one webhook.
type disorderSet map[disorder]bool

// ofTry names those that the genuine try shows; copies and forgeries are tries of their own.
func (s disorderSet) ofTry() disorder {
	var names []string
	for _, candidate := range []disorder{disorderReorder, disorderDelay} {
		if s[candidate] {
			names = append(names, string(candidate))
		}
	}
	return disorder(strings.Join(names, ","))
}

// disorderRates draws the disorders of webhooks, each independently of the others.
type disorderRates struct {
	mu   sync.Mutex
	rand *rand.Rand
	of   map[string]float64 // absent is 0
}

// draw draws once for each disorder, also where the rate is 0, so that one rate does not change what another hits.
// Nothing is drawn while all are 0.
func (d *disorderRates) draw() disorderSet {
	d.mu.Lock()
	defer d.mu.Unlock()
	drawn := disorderSet{}
	if len(d.of) == 0 {
		return drawn
	}
	for _, candidate := range randomDisorders() {
		if d.rand.Float64() < d.of[string(candidate)] {
			drawn[candidate] = true
		}
	}
	return drawn
}

func disorderNames() []string {
	var names []string
	for _, candidate := range randomDisorders() {
		names = append(names, string(candidate))
	}
	return names
}

// named returns all rates by name, also those that are 0.
func (d *disorderRates) named() map[string]float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	named := map[string]float64{}
	for _, name := range disorderNames() {
		named[name] = d.of[name]
	}
	return named
}

func (d *disorderRates) set(rates map[string]float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of = rates
}
