// Package tally counts what has happened in a run, by group and name: answers by status, faults by kind, blows, edges.
// It is where the report reads its figures, and where the list of what must sometimes happen finds out what never did.
// It refuses to know what the names mean.
//
// It is safe for concurrent use. It grows with the number of different names only.
package tally

import (
	"maps"
	"sync"
)

// Tally is a set of counters.
type Tally struct {
	mu     sync.Mutex
	groups map[string]map[string]int
}

// New counts from zero.
func New() *Tally { return &Tally{groups: map[string]map[string]int{}} }

// Add counts n more.
func (t *Tally) Add(group, name string, n int) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.groups[group] == nil {
		t.groups[group] = map[string]int{}
	}
	t.groups[group][name] += n
}

// One counts one more.
func (t *Tally) One(group, name string) { t.Add(group, name, 1) }

// Of is a counter.
func (t *Tally) Of(group, name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.groups[group][name]
}

// Sum adds up a group.
func (t *Tally) Sum(group string) int {
	sum := 0
	for _, n := range t.Group(group) {
		sum += n
	}
	return sum
}

// Group is a copy of one group.
func (t *Tally) Group(group string) map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.groups[group])
}

// All is a copy of everything.
func (t *Tally) All() map[string]map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]map[string]int{}
	for group, names := range t.groups {
		all[group] = maps.Clone(names)
	}
	return all
}
