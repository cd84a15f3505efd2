package invariants

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
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
		return movement == string(payment.Processing)
	case idempotency.CompletedStatus:
		return slices.Contains([]string{string(payment.Succeeded), string(payment.Declined), string(payment.Reversed)},
			movement)
	case idempotency.FailedRetryableStatus:
		return movement == string(payment.Failed)
	case idempotency.ExpiredStatus:
	}
	return movement != string(payment.Processing)
}

// mostRounds bounds how often a key may be lost and given back in one generation, however often its client asks. What
// comes after the 20th attempt is for an operator to decide, who may give it back.
const mostRounds = 19

// rounds is the part of I2 about keys that never come to an end: between unknown and failed_retryable, a key goes round
// a bounded number of times in each generation, unless an operator has the case. Each round is a request to the PSP,
// and a client that waits.
func rounds(w world) []Violation {
	count := map[keyGeneration]int{}
	var found []Violation
	for _, e := range w.books.events {
		if e.From != string(idempotency.UnknownStatus) || e.To != string(idempotency.FailedRetryableStatus) ||
			e.Actor == string(judge.SourceOperator) {
			continue
		}
		at := keyGeneration{keyName{e.Tenant, e.Operation, e.Key}, e.Generation}
		if count[at]++; count[at] == mostRounds+1 {
			found = append(found, Violation{"I2", at.key.String(), fmt.Sprintf(
				"lost and given back more than %d times in generation %d: it comes to no end", mostRounds, e.Generation)})
		}
	}
	return found
}

// silenced reports whether the PSP has executed it, and has answered the first request with no verdict.
func (e Entry) silenced() bool {
	return slices.Contains([]string{"pm_timeout_charged", "pm_silent_charged", "pm_500_charged", "pm_reset_charged",
		"pm_late_charge", "pm_stuck", "pm_forgotten_key"}, e.Fault)
}

// honest reports whether the PSP has told of it what its ledger says, to everybody it has told anything.
func (e Entry) honest() bool {
	return e.silenced() || slices.Contains([]string{"pm_ok", "pm_declined", "pm_slow", "pm_timeout_not_charged",
		"pm_500_not_charged", wrongAmount, "pm_booked_late", "pm_requires_action", "pm_bank_debit",
		"pm_bank_debit_fails"}, e.Fault)
}

// silent is the part of I8 about a line that is not there. Only the owner completes a key without one, and it needs the
// PSP's verdict for it. If the only attempt was never given one, somebody else has completed it, and has left no line.
func silent(w world) []Violation {
	told := map[keyGeneration]bool{}
	for _, e := range w.books.events {
		if e.To == string(idempotency.CompletedStatus) && e.From != e.To {
			told[keyGeneration{keyName{e.Tenant, e.Operation, e.Key}, e.Generation}] = true
		}
	}
	var found []Violation
	for _, e := range slices.Concat(w.ledger.Charges, w.ledger.Refunds) {
		m := w.books.subjectOf(e)
		// At Stripe, an owner without an answer reads the intent. Only one that cannot be read is silent.
		if m == nil || !e.silenced() ||
			w.books.psps[m.Tenant] == stripePSP && m.PaymentID == nil && e.Fault != "pm_stuck" {
			continue
		}
		name := m.keyName()
		k := w.books.lives[m.ID]
		if k == nil || k.Subject != m.ID || k.Attempt != 1 || k.Status != string(idempotency.CompletedStatus) ||
			told[keyGeneration{name, k.Generation}] {
			continue
		}
		found = append(found, Violation{"I8", name.String(),
			fmt.Sprintf("completed without a line, and its owner never had the PSP's answer (%s)", e.Fault)})
	}
	return found
}

// windowTolerance is between two clock readings of the same transaction: that of the row, which the guard reads, and
// that of its line in the timeline, which is all that is left. On a busy machine, and in a session that runs the
// trigger for the first time, a tenth of a second lies between them.
const windowTolerance = 500 * time.Millisecond

// released is the part of I8 that looks behind an edge: a key is given back with a proof that nothing was executed, or
// not at all. There are such proofs. The owner has one when it has not sent; that it really has not is seen in
// sends. A lookup has one when the PSP finds nothing after the grace period. At Stripe, both have one when the intent
// is cancelled; that it really is, is seen in intents.
func released(w world, window time.Duration) []Violation {
	var found []Violation
	unknownSince := map[keyName]time.Time{}
	for _, e := range w.books.events {
		name := keyName{e.Tenant, e.Operation, e.Key}
		if e.To == string(idempotency.UnknownStatus) && e.From != e.To {
			unknownSince[name] = e.At
		}
		if e.To != string(idempotency.FailedRetryableStatus) || e.From == e.To {
			continue
		}
		owner := e.From == string(idempotency.InProgressStatus)
		cancelled := w.books.psps[e.Tenant] == stripePSP && e.Operation == payment.CreateOperation &&
			strings.HasPrefix(e.Reason, cancelledAtPSP)
		switch proven := e.At.Sub(unknownSince[name]) + windowTolerance; {
		case owner && e.Actor != string(judge.SourceOwner):
			found = append(found, Violation{"I8", name.String(), e.Actor +
				" gave it back, and only its owner can know that nothing was sent"})
		case !owner && proven < window && !cancelled:
			found = append(found, Violation{"I8", name.String(),
				fmt.Sprintf("%s gave it back %s after it became unknown, within the grace period of %s",
					e.Actor, e.At.Sub(unknownSince[name]).Round(time.Millisecond), window)})
		}
	}
	return found
}

// givenBack counts the attempts of each generation whose owners have given their word that they have not sent.
func (b *books) givenBack() map[keyGeneration]int {
	count := map[keyGeneration]int{}
	for _, e := range b.events {
		if e.Actor == string(judge.SourceOwner) && e.From == string(idempotency.InProgressStatus) &&
			e.To == string(idempotency.FailedRetryableStatus) {
			count[keyGeneration{keyName{e.Tenant, e.Operation, e.Key}, e.Generation}]++
		}
	}
	return count
}

// The values of dead_letter_hold, each stronger than the one before it.
var holds = []string{"none", "expiry", "release", "decline"}

// moneyMoved is the place of the strongest hold.
const moneyMoved = 3

// holdsFit is the part of I8 about what dead letters hold: each key's row says what the open dead letters about its
// generation and payment forbid, and those about any generation by which money has moved under the key.
func holdsFit(w world, _ Evidence) []Violation {
	due := map[keyName]int{}
	for _, l := range w.books.deadLetters {
		name := keyName{l.Tenant, l.Operation, l.Key}
		k := w.books.keys[name]
		if k != nil && l.Status == "open" && l.holdsRow(k) {
			due[name] = max(due[name], l.holds())
		}
	}
	var found []Violation
	for name, k := range w.books.keys {
		if want := holds[due[name]]; k.Hold != want {
			found = append(found, Violation{"I8", name.String(),
				fmt.Sprintf("dead letters hold %s of it, and its row says %s", want, k.Hold)})
		}
	}
	return found
}

// holdsRow reports whether a dead letter holds a key's row. Money that others have moved out of a payment did not move
// under its key, and does not keep the expired key of a payment that was executed from its renewal.
func (l deadLetterRow) holdsRow(k *keyRow) bool {
	if l.Kind != "moved_outside" {
		return l.concerns(k) || l.holds() == moneyMoved
	}
	return l.concerns(k) && (k.Status != "expired" || k.ResponseStatus == nil || *k.ResponseStatus == 402)
}

// holds is what a dead letter forbids its key while it is open, by its place in holds.
func (l deadLetterRow) holds() int {
	if l.Kind == "job_discarded" {
		return 1
	}
	for _, member := range []string{"record", "answer"} {
		if readDocument(readDocument(l.Evidence).member(member)).text("status") == "succeeded" {
			return moneyMoved
		}
	}
	return 2
}

// readGone reads the keys without a row that their tombstones hold.
func (b *books) readGone(ctx context.Context, tx pgx.Tx) error {
	gone, err := collect(ctx, tx, `SELECT tenant_id, operation, key FROM idempotency_key_tombstones
		WHERE dead_letter_hold = 'decline'`, func(row pgx.CollectableRow) (n keyName, err error) {
		return n, row.Scan(&n.tenant, &n.operation, &n.key)
	})
	for _, name := range gone {
		b.gone[name] = true
	}
	return err
}
