package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"payonce/internal/tenants"
	"payonce/lab/world"
)

// flows lists all of them, in the order of the grid.
func flows() []flow {
	return []flow{
		paymentFlow(), silentPaymentFlow(), refundFlow(), otherEndFlow(), ingestFlow(), processFlow(), afterFlow(),
		sweepFlow(), claimFlow(), resolveFlow(), scanFlow(), operatorFlow(), pruneFlow(), eventsFlow(), sceneFlow(),
		stripeFlow(), stripeLookupFlow(), stripeRefundFlow(), stripeProcessFlow(), stripeScanFlow(), stripeSceneFlow(),
	}
}

// cell is one row under one fault.
type cell struct {
	flow  string
	row   row
	label string // of the row, within its flow: the window's number, and a dead letter where it has several
	fault fault
}

// name is what a selection calls the cell.
func (c cell) name() string { return c.flow + "/" + c.label + "/" + string(c.fault) }

// needs is what must be possible on the site, so that the cell can be played there. Where keys or webhooks end, the
// pruner comes more often than it does by itself.
func (c cell) needs() (all []world.Ability) {
	if c.row.seesLocks {
		all = append(all, world.SeeLocks)
	}
	if c.row.env["PRUNE_EVERY"] != "" {
		all = append(all, world.EndKeys)
	}
	if c.row.psp != "" {
		all = append(all, world.ChangeProvider)
	}
	return all
}

// labels name the rows of a flow.
func labels(rows []row) []string {
	of, seen := map[int]int{}, map[int]int{}
	for _, r := range rows {
		of[r.window]++
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = fmt.Sprint(r.window)
		if of[r.window] > 1 {
			names[i] += "abcdefgh"[seen[r.window] : seen[r.window]+1]
		}
		seen[r.window]++
	}
	return names
}

// cells are those that make sense.
func cells(all []flow) []cell {
	var found []cell
	for _, f := range all {
		names := labels(f.rows)
		for i, r := range f.rows {
			for _, column := range faults() {
				if r.senseless(column) == "" {
					found = append(found, cell{f.name, r, names[i], column})
				}
			}
		}
	}
	return found
}

// selected are the cells that a selection names: a flow, a flow/window, a flow/row or a flow/row/fault each. A word
// that names none is an error.
func selected(all []cell, only string) ([]cell, error) {
	if strings.TrimSpace(only) == "" {
		return all, nil
	}
	wanted := map[string]bool{}
	for word := range strings.SplitSeq(only, ",") {
		word = strings.TrimSpace(word)
		found := false
		for _, c := range all {
			if c.is(word) {
				wanted[c.name()], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("ONLY has %q, which is no flow, flow/window or flow/window/fault", word)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c cell) bool { return !wanted[c.name()] }), nil
}

func (c cell) is(word string) bool {
	parts := strings.Split(word, "/")
	return len(parts) <= 3 && parts[0] == c.flow &&
		(len(parts) < 2 || parts[1] == c.label || parts[1] == fmt.Sprint(c.row.window)) &&
		(len(parts) < 3 || parts[2] == string(c.fault))
}

// sample draws one cell of each row, so that each column is drawn as well.
func sample(all []cell, seed uint64) []cell {
	draw := rand.New(rand.NewPCG(seed, seed))
	var rows [][]cell
	for _, c := range all {
		last := len(rows) - 1
		if last < 0 || rows[last][0].flow != c.flow || rows[last][0].label != c.label {
			rows = append(rows, nil)
			last++
		}
		rows[last] = append(rows[last], c)
	}
	drawn := map[fault]int{}
	var chosen []cell
	draw.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	for _, cells := range rows {
		draw.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		// The column that was drawn least.
		c := slices.MinFunc(cells, func(a, b cell) int { return drawn[a.fault] - drawn[b.fault] })
		drawn[c.fault]++
		chosen = append(chosen, c)
	}
	return chosen
}

// flow is a group of rows.
type flow struct {
	name  string // as a selection calls it
	title string
	rows  []row
}

// row is one boundary of a flow, and what is done around it.
type row struct {
	window int    // the number of the crash window
	step   string // what lies behind the boundary, and what before
	at     boundary
	victim string      // world.API, unless it is given
	psp    tenants.PSP // that all tenants are at; native, unless it is given
	// noWebhooks: the PSP tells nobody, so that lookups and the scan have to find out.
	noWebhooks bool
	client     bool // who waits for an answer to what begin has sent
	seesLocks  bool // it looks at who waits for a lock
	env        map[string]string

	// script is the whole play of a scene, from the beginning to a final answer; it has no boundary.
	script func(*stage) error

	prepare func(*stage) error // brings the world to where the flow can begin
	begin   func(*stage) error // begins it; what is held there is not waited for
	heal    func(*stage) error // repairs what prepare has broken, after the fault
	finish  func(*stage) error // waits for the end, which the world has to come to; may be called again
	want    want
	but     map[fault]want
}

// want is what a cell expects beside the invariants.
type want struct {
	// posts is how many requests to move money under the case's key the PSP has got, from and to.
	posts [2]int
	// replayed is what the first final answer has said of itself; empty for either.
	replayed string
	check    func(*stage) error
	last     func(*stage) error // is looked at behind the invariants, which it would disturb
}

func (r row) wants(f fault) want {
	if f == hangUp { // nobody heard the answer of the first request, which was executed all the same
		return want{posts: r.want.posts, replayed: "true", check: (*stage).ownerFinished}
	}
	if w, given := r.but[f]; given {
		if w.check == nil {
			w.check = r.want.check
		}
		return w
	}
	return r.want
}
