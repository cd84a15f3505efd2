package stripe

import (
	"maps"
	"slices"
	"strings"
)

// expandable are the members that hold the id of another object, by the kind of their object, with the kind of the
// other one. The source of a transaction is a charge, a refund, a dispute or a payout.
var expandable = map[string]map[string]string{
	"payment_intent": {"latest_charge": "charge"},
	"charge":         {"balance_transaction": "balance_transaction", "payment_intent": "payment_intent"},
	"refund": {
		"balance_transaction": "balance_transaction", "charge": "charge",
		"failure_balance_transaction": "balance_transaction", "payment_intent": "payment_intent",
	},
	"dispute":             {"charge": "charge", "payment_intent": "payment_intent"},
	"balance_transaction": {"source": "source"},
	"source": {
		"balance_transaction": "balance_transaction", "charge": "charge", "payment_intent": "payment_intent",
	},
}

// maxExpansion is how deep Stripe expands: docs.stripe.com/expand#how-it-works.
const maxExpansion = 4

// expansion is a path to a member of an object of the kind, or of each object of a list: data.latest_charge.
func expansion(of string) form {
	kind, isList := strings.CutPrefix(of, "list of ")
	members := slices.Sorted(maps.Keys(expandable[kind]))
	if isList {
		for i := range members {
			members[i] = "data." + members[i]
		}
	}
	return form{"`" + strings.Join(members, "`, `") + "`, and members of these", func(_, path string) error {
		members, inData := strings.CutPrefix(path, "data.")
		at := kind
		for i, name := range strings.Split(members, ".") {
			if at = expandable[at][name]; at == "" || i >= maxExpansion || inData != isList {
				return invalid("expand", "This property cannot be expanded ("+name+").")
			}
		}
		return nil
	}}
}

// expand puts the objects in the place of their ids. Of is what is being written, and not in the store yet.
func (s *store) expand(shown object, paths []string, of *change) object {
	for _, path := range paths {
		s.expandPath(shown, strings.Split(path, "."), of)
	}
	return shown
}

func (s *store) expandPath(shown object, names []string, of *change) {
	if len(names) == 0 {
		return
	}
	if all, isList := shown["data"].([]object); isList {
		for _, one := range all {
			s.expandPath(one, names[1:], of)
		}
		return
	}
	id, _ := shown[names[0]].(string)
	if maybe, _ := shown[names[0]].(*string); maybe != nil {
		id = *maybe
	}
	if found := s.find(id, of); found != nil {
		shown[names[0]] = found.shown()
	}
	if inner, expanded := shown[names[0]].(object); expanded {
		s.expandPath(inner, names[1:], of)
	}
}

// find returns the newest version of the object with an id, or nil.
func (s *store) find(id string, of *change) snapshot {
	switch {
	case of.Intent != nil && of.Intent.ID == id:
		return of.Intent
	case of.Charge != nil && of.Charge.ID == id:
		return of.Charge
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if known := s.newest[id]; known != nil {
		return known
	}
	for _, t := range of.transactions() {
		if t.id == id {
			return t
		}
	}
	return nil
}
