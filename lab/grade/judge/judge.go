// Package judge says what is wrong with a history: what clients asked and were told, and what the PSP has charged. It
// is pure, and it knows nothing of the server's inside.
package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
)

// Invariant is a sentence that has to be true of each payment.
type Invariant string

// The invariants.
const (
	Once    Invariant = "once"    // nobody is charged twice for one payment
	Truth   Invariant = "truth"   // what the client was told at the end is what the PSP did
	Stays   Invariant = "stays"   // a final outcome never changes
	Bytes   Invariant = "bytes"   // each retry gets the same status and the same bytes
	Refuses Invariant = "refuses" // the key is refused to another request, and that is never charged
	Ends    Invariant = "ends"    // each key comes to an end, when nothing is in its way any more
	Found   Invariant = "found"   // also if the client never asks again
	Speaks  Invariant = "speaks"  // each answer is one that the profile knows
	Forgets Invariant = "forgets" // a key can be used again when its time is over, and that is a new payment
	Follows Invariant = "follows" // what others give back or dispute at the PSP is shown, and bounds refunds
)

// Invariants are all of them, with what they say.
func Invariants() []struct {
	Name Invariant
	Says string
} {
	return []struct {
		Name Invariant
		Says string
	}{
		{Once, "nobody is charged twice for one payment"},
		{Truth, "what the client was told at the end is what the PSP did"},
		{Stays, "a final outcome never changes"},
		{Bytes, "each retry gets the same status and the same bytes"},
		{Refuses, "a used key is refused to another request, and that is never charged"},
		{Ends, "each key comes to an end, when nothing is in its way any more"},
		{Found, "an outcome is found also if the client never asks again"},
		{Speaks, "each answer is one that the profile has a meaning for"},
		{Forgets, "a key can be used again when its time is over, and that is a new payment"},
		{Follows, "what others give back or dispute at the PSP is shown, and bounds refunds"},
	}
}

// Verdict is what one intent says about one invariant.
type Verdict struct {
	Invariant Invariant
	Intent    int
	Why       string // it is broken; empty: it holds
}

// Judge returns a verdict for each invariant that the run can say something about.
func Judge(r Run) []Verdict {
	var all []Verdict
	for i := range r.Case.Intents {
		v := view(r, i)
		all = append(all, v.once(), v.truth(), v.speaks())
		stays := v.stays()
		if len(v.finals) > 1 || stays.Why != "" {
			all = append(all, stays)
		}
		if len(v.finals) > 1 {
			all = append(all, v.bytes())
		}
		if r.Case.Has(plan.Other) {
			all = append(all, v.refuses())
		}
		if v.is(plan.UntilFinal) {
			ends := v.ends(r.NotFinal, Ends, "in the end no final answer came, however often the client asked")
			if stays.Why != "" {
				ends.Why = "" // an answer that contradicts the final one before costs one mark, not two
			}
			all = append(all, ends)
		}
		if v.is(plan.Look) {
			all = append(all, v.ends(r.Unseen, Found, "the server never knew the outcome by itself"))
		}
		if r.Case.Has(plan.Renew) {
			all = append(all, v.forgets())
		}
		if r.Case.Has(plan.Shown, plan.Overdraw) {
			all = append(all, v.verdict(Follows, r.Unfollowed[i] != "", "%s", r.Unfollowed[i]))
		}
	}
	return all
}

// intent is all that is known of one.
type intent struct {
	number  int
	steps   []plan.Step
	answers []Answer // to its own request
	others  []Answer // to the request with another amount
	finals  []Answer
	paid    []Charge
	wrong   []Charge // with the other request's amount
	expired bool
}

func view(r Run, number int) intent {
	v := intent{number: number, expired: r.Case.Has(plan.Expire)}
	for _, s := range r.Case.Steps {
		if s.Intent == number || s.Intent == plan.All {
			v.steps = append(v.steps, s)
		}
	}
	for _, a := range r.Answers {
		switch {
		case a.Intent != number:
		case a.Other():
			v.others = append(v.others, a)
		default:
			v.answers = append(v.answers, a)
			if a.Meaning.Final() {
				v.finals = append(v.finals, a)
			}
		}
	}
	for _, c := range r.Charges {
		switch {
		case c.Intent != number || !c.Succeeded:
		case c.Other:
			v.wrong = append(v.wrong, c)
		default:
			v.paid = append(v.paid, c)
		}
	}
	return v
}

func (v intent) is(kind plan.Kind) bool {
	for _, s := range v.steps {
		if s.Kind == kind {
			return true
		}
	}
	return false
}

func (v intent) verdict(of Invariant, broken bool, why string, args ...any) Verdict {
	if !broken {
		return Verdict{Invariant: of, Intent: v.number}
	}
	return Verdict{of, v.number, fmt.Sprintf(why, args...)}
}

// allowed is how many charges there may be: a key that was used again after its time is another payment.
func (v intent) allowed() int {
	if v.expired {
		return 2
	}
	return 1
}

func (v intent) once() Verdict {
	return v.verdict(Once, len(v.paid) > v.allowed(), "charged %d times", len(v.paid))
}

// truth compares the last word of each life with the ledger.
func (v intent) truth() Verdict {
	if len(v.finals) == 0 {
		return v.verdict(Truth, false, "")
	}
	last := v.finals[len(v.finals)-1]
	if last.Meaning == profile.Paid {
		return v.verdict(Truth, len(v.paid) == 0, "the client was told %s, and the PSP has charged nothing",
			last.Meaning)
	}
	return v.verdict(Truth, len(v.paid) > 0, "the client was told %s, and the PSP has charged", last.Meaning)
}

// stays looks at the requests that were sent after a final answer had come.
func (v intent) stays() Verdict {
	if len(v.finals) == 0 {
		return v.verdict(Stays, false, "")
	}
	first := v.finals[0]
	for _, a := range v.answers {
		if a.Life != first.Life || !a.Asked.After(first.Heard) || a.Meaning == profile.None ||
			a.Meaning == profile.Again {
			continue // an outage says nothing about the key
		}
		if a.Meaning != first.Meaning {
			return v.verdict(Stays, true, "first told %s, later %s", first.Meaning, a.Meaning)
		}
	}
	return v.verdict(Stays, false, "")
}

func (v intent) speaks() Verdict {
	for _, a := range slices.Concat(v.answers, v.others) {
		if a.Err == "" && a.Meaning == profile.None {
			return v.verdict(Speaks, true, "status %d has no meaning in the profile", a.Status)
		}
	}
	return v.verdict(Speaks, false, "")
}

func (v intent) bytes() Verdict {
	var first *Answer
	for i, a := range v.finals {
		switch {
		case a.Step.Reads():
		case first == nil:
			first = &v.finals[i]
		case a.Life == first.Life && (a.Status != first.Status || !bytes.Equal(a.Body, first.Body)):
			return v.verdict(Bytes, true, "a retry got other bytes than the first final answer")
		}
	}
	return v.verdict(Bytes, false, "")
}

func (v intent) refuses() Verdict {
	if len(v.wrong) > 0 {
		return v.verdict(Refuses, true, "another amount under the same key was charged")
	}
	for _, a := range v.others {
		if a.Meaning.Final() {
			return v.verdict(Refuses, true, "another amount under the same key was told %s", a.Meaning)
		}
		known := len(v.finals) > 0 && v.finals[0].Heard.Before(a.Asked)
		if known && a.Err == "" && a.Meaning != profile.Refused {
			return v.verdict(Refuses, true, "another amount under a key that was finished was not refused: status %d",
				a.Status)
		}
	}
	return v.verdict(Refuses, false, "")
}

func (v intent) ends(not []int, of Invariant, why string) Verdict {
	for _, i := range not {
		if i == v.number {
			return v.verdict(of, true, "%s", why)
		}
	}
	return v.verdict(of, false, "")
}

func (v intent) forgets() Verdict {
	if len(v.finals) == 0 || v.finals[len(v.finals)-1].Life == 0 {
		return v.verdict(Forgets, true, "the key had no final answer after its time")
	}
	switch first, last := v.finals[0], v.finals[len(v.finals)-1]; {
	case len(v.paid) < 2 && SameJSON(first.Body, last.Body):
		return v.verdict(Forgets, true, "the client got the old answer, and nothing new was charged")
	case len(v.paid) < 2:
		return v.verdict(Forgets, true,
			"the client was told of a new payment, and the PSP has charged once only")
	}
	return v.verdict(Forgets, false, "")
}

// SameJSON reports whether two bodies mean the same: a server may write the old answer in other bytes.
func SameJSON(a, b []byte) bool {
	var left, right any
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(left, right)
}
