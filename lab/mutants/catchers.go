package main

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// catchers counts, for each file of the schema, which tests have caught its mutants. Each test reaches the schema, so
// no measurement tells which to run first. The tests that have caught the neighbours are the best guess.
type catchers struct {
	mu     sync.Mutex
	counts map[string]map[string]int // by file, by package and test
}

func newCatchers(p plan, known map[string]result) *catchers {
	c := &catchers{counts: map[string]map[string]int{}}
	for _, m := range p.mutants {
		c.note(m, known[m.hash])
	}
	return c
}

func (c *catchers) note(m mutant, r result) {
	if !ofSchema(m) || r.verdict != caught || !strings.Contains(r.by, " ") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[m.where] == nil {
		c.counts[m.where] = map[string]int{}
	}
	c.counts[m.where][r.by]++
}

// first are runs of the few tests that have caught most mutants of the same file.
func (c *catchers) first(m mutant) []batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts[m.where]
	best := sortedKeys(counts)
	slices.SortStableFunc(best, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	var runs []batch
	for _, each := range best[:min(few, len(best))] {
		pkg, test, _ := strings.Cut(each, " ")
		if i := slices.IndexFunc(runs, func(b batch) bool { return b.pkg == pkg }); i >= 0 {
			runs[i].tests = append(runs[i].tests, test)
		} else {
			runs = append(runs, batch{pkg, []string{test}, 2 * slack})
		}
	}
	return runs
}

func ofSchema(m mutant) bool { return strings.HasPrefix(m.where, "db/migrations/") }
