package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Violation is a history, of one key or of two, that no server could have which keeps its promises; or, when it is
// undecided, one that could not be judged in time.
type Violation struct {
	Invariant          string // "I3", or "I7" when it is about who hears 422
	Tenant, Route, Key string
	Detail             string
	Undecided          bool
	Operations         []Operation // of the key, in the order of their calls

	model porcupine.Model
	info  *porcupine.LinearizationInfo
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s %s %s: %s", v.Invariant, v.Tenant, v.Route, v.Key, v.Detail)
}

// Visualize writes a page that shows the key's history in time, with the longest orders that could be found.
func (v Violation) Visualize(path string) error {
	if v.info == nil {
		return fmt.Errorf("visualize %s: what is wrong is not a matter of order: %s", v.Key, v.Detail)
	}
	if err := porcupine.VisualizePath(v.model, *v.info, path); err != nil {
		return fmt.Errorf("visualize %s: %w", v.Key, err)
	}
	return nil
}

// scope names one life of a key.
type scope struct {
	tenant, route, key string
	life               int
}

func (s scope) compare(o scope) int {
	return cmp.Or(cmp.Compare(s.tenant, o.tenant), cmp.Compare(s.route, o.route), cmp.Compare(s.key, o.key),
		cmp.Compare(s.life, o.life))
}

// Check judges the history of each key by itself, and that no payment or refund is under two of them. limit bounds the
// search for one key: what is not decided by then is reported as such. The violations are in the order of their keys.
func Check(operations []Operation, limit time.Duration) []Violation {
	keys := map[scope][]Operation{}
	for _, o := range operations {
		if o.Route == PaymentsRoute || o.Route == RefundsRoute {
			s := scope{o.Tenant, o.Route, o.Key, max(o.Life, 1)}
			keys[s] = append(keys[s], o)
		}
	}
	var violations []Violation
	subjects := map[string]scope{}
	for _, s := range slices.SortedFunc(maps.Keys(keys), scope.compare) {
		k := newKeyHistory(s, keys[s])
		if v, bad := k.check(limit); bad {
			violations = append(violations, v)
		}
		for _, r := range k.requests {
			if owner, seen := subjects[r.subject]; r.subject != "" && seen && owner != s {
				violations = append(violations, k.violation("I3",
					fmt.Sprintf("%s is under the key %s in its life %d, too", r.subject, owner.key, owner.life)))
				break
			} else if r.subject != "" {
				subjects[r.subject] = s
			}
		}
	}
	return violations
}

// keyHistory is the history of one key.
type keyHistory struct {
	scope      scope
	operations []Operation
	requests   []*reading
	misread    error // of the first answer that the contract does not have
}

func newKeyHistory(s scope, operations []Operation) *keyHistory {
	k := &keyHistory{scope: s, operations: operations}
	slices.SortStableFunc(k.operations, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
	for i, o := range k.operations {
		r, err := read(o, i)
		if err != nil && k.misread == nil {
			k.misread = fmt.Errorf("client %d at %s: %w", o.Client, o.Return, err)
		}
		k.requests = append(k.requests, &r)
	}
	return k
}

func (k *keyHistory) violation(invariant, detail string) Violation {
	return Violation{
		Invariant: invariant, Tenant: k.scope.tenant, Route: k.scope.route, Key: k.scope.key, Detail: detail,
		Operations: k.operations,
	}
}

func (k *keyHistory) check(limit time.Duration) (Violation, bool) {
	if k.misread != nil {
		return k.violation("I3", k.misread.Error()), true
	}
	m, events := modelOf(k.requests), k.events()
	switch porcupine.CheckOperationsTimeout(m, events, limit) {
	case porcupine.Ok:
		return Violation{}, false
	case porcupine.Unknown:
		v := k.violation("I3", fmt.Sprintf("undecided: no order of %d operations was found, or excluded, within %s",
			len(k.operations), limit))
		v.Undecided = true
		return v, true
	case porcupine.Illegal:
	}
	_, info := porcupine.CheckOperationsVerbose(m, events, limit)
	invariant, detail := k.explain(m, events, info)
	v := k.violation(invariant, detail)
	v.model, v.info = m, &info
	return v, true
}

// events are a key's history for porcupine. Time is doubled, so that there is an instant behind each: an arrival comes
// before the answer.
//
// A final answer stands at its return. The search would put it anywhere between call and return, but nothing is lost:
// once final, always final, so whatever order explains a history still explains it when a final answer moves to its
// end.
func (k *keyHistory) events() []porcupine.Operation {
	var events []porcupine.Operation
	for _, r := range k.requests {
		called, returned := 2*int64(r.operation.Call), 2*int64(r.operation.Return)+1
		if r.mayTake() {
			events = append(events, porcupine.Operation{ClientId: 2 * r.operation.Client, Input: event{true, r},
				Call: called, Return: called})
		}
		if r.tells() {
			from := called + 1
			if r.kind == final {
				from = returned
			}
			events = append(events, porcupine.Operation{ClientId: 2*r.operation.Client + 1, Input: event{false, r},
				Call: from, Return: returned})
		}
	}
	return events
}

// explain names the earliest answer that the longest order found has no place for.
func (k *keyHistory) explain(
	m porcupine.Model, events []porcupine.Operation, info porcupine.LinearizationInfo,
) (invariant, detail string) {
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	reached := m.Init()
	for _, id := range longest {
		_, reached = m.Step(reached, events[id].Input, nil)
	}
	var stuck *reading
	for id, e := range events {
		r := e.Input.(event).request
		if e.Input.(event).arrives || slices.Contains(longest, id) {
			continue
		}
		if stuck == nil || r.operation.Return < stuck.operation.Return {
			stuck = r
		}
	}
	if stuck == nil {
		return "I3", "no order explains it"
	}
	if stuck.kind == misuse {
		invariant = "I7"
	} else {
		invariant = "I3"
	}
	return invariant, fmt.Sprintf("client %d was answered %q at %s, which no order of the %d operations explains; the longest one ends in %s",
		stuck.operation.Client, stuck, stuck.operation.Return, len(k.operations), m.DescribeState(reached))
}
