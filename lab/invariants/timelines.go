package invariants

import (
	"fmt"
	"slices"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

// timelines is I8.
func timelines(w world) []Violation {
	var found []Violation
	events := map[keyName][]eventRow{}
	for _, e := range w.books.kept {
		name := keyName{e.Tenant, e.Operation, e.Key}
		events[name] = append(events[name], e)
		if w.books.keys[name] == nil && len(events[name]) == 1 {
			found = append(found, Violation{"I8", name.String(), "has a timeline and no row"})
		}
	}
	all := slices.Clone(w.books.ended)
	for name, k := range w.books.keys {
		all = append(all, timeline{row: k, events: events[name]})
	}
	lives := map[keyName]int{}
	for _, t := range all {
		lives[t.row.name()]++
	}
	for _, t := range all {
		t.again = lives[t.row.name()] > 1
		if err := walk(t); err != nil {
			found = append(found, Violation{"I8", t.row.name().String(), err.Error()})
		}
	}
	for _, k := range w.books.lives {
		name := k.name()
		if m := w.books.subjects[k.Subject]; m != nil && !agree(k.Status, m.Status) {
			found = append(found, Violation{"I8", name.String(),
				fmt.Sprintf("the key is %s, and %s is %s", k.Status, m, m.Status)})
		}
	}
	return found
}

// position is how far a key has come along its timeline.
type position struct {
	status              string
	attempt, generation int32
}

// walk follows a timeline from the reservation to the row as it stands. The two steps of the happy path are not written
// down: the reservation of an unused key, and the completion by the owner. Whatever else moves a key leaves a line.
func walk(t timeline) error {
	events, k := t.events, t.row
	at := position{status: string(idempotency.InProgressStatus), attempt: 1, generation: t.first()}
	for _, e := range events {
		if e.From == string(idempotency.CompletedStatus) && at.status == string(idempotency.InProgressStatus) {
			at.status = e.From // the owner's own completion
		}
		if e.From != at.status {
			return fmt.Errorf("%s moved it from %s to %s, but it was %s", e.Actor, e.From, e.To, at.status)
		}
		if e.From != e.To && !slices.Contains(idempotency.Edges(),
			idempotency.Edge{From: idempotency.Status(e.From), To: idempotency.Status(e.To)}) {
			return fmt.Errorf("%s moved it from %s to %s, which is no edge", e.Actor, e.From, e.To)
		}
		next := at.after(e)
		if e.Attempt != next.attempt || e.Generation != next.generation {
			return fmt.Errorf("%s moved it to %s as attempt %d of generation %d, but it was in attempt %d of generation %d",
				e.Actor, e.To, e.Attempt, e.Generation, next.attempt, next.generation)
		}
		at = next
	}
	if at.status == string(idempotency.InProgressStatus) && k.Status == string(idempotency.CompletedStatus) {
		at.status = k.Status
	}
	if at != (position{k.Status, k.Attempt, k.Generation}) {
		return fmt.Errorf("the row is %s in attempt %d of generation %d, the timeline ends %s in attempt %d of generation %d",
			k.Status, k.Attempt, k.Generation, at.status, at.attempt, at.generation)
	}
	return nil
}

func (p position) after(e eventRow) position {
	p.status = e.To
	if e.From != e.To && e.To == string(idempotency.InProgressStatus) {
		if e.From == string(idempotency.ExpiredStatus) {
			return position{e.To, 1, p.generation + 1}
		}
		p.attempt++
	}
	return p
}

// agree reports whether a key and what it stands for, which move in one transaction, say the same.
func agree(key, movement string) bool {
	switch idempotency.Status(key) {
	case idempotency.InProgressStatus, idempotency.UnknownStatus:
		return movement == string(payments.Processing)
	case idempotency.CompletedStatus:
		return movement == string(payments.Succeeded) || movement == string(payments.Declined)
	case idempotency.FailedRetryableStatus:
		return movement == string(payments.Failed)
	case idempotency.ExpiredStatus:
	}
	return movement != string(payments.Processing)
}
