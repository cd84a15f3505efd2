// Package plan says what is tried at each level: which requests clients send, and what fails meanwhile. It is pure. A
// seed decides the details, and the same seed always makes the same plan.
package plan

import (
	"math/rand/v2"
	"slices"
)

// Kind of a step.
type Kind string

// The steps of clients. N is how many requests, On the instance that gets them, where 0 is any.
const (
	Send       Kind = "send"        // N requests at once; the next step does not wait for their answers
	Await      Kind = "await"       // until each request has been answered, or its client has stopped waiting
	Again      Kind = "again"       // N requests, one after another
	Other      Kind = "other"       // the same key with another amount
	HangUp     Kind = "hang up"     // the clients of all requests that wait close their connections
	Try        Kind = "try"         // the same request, again and again, until its answer is final; it may fail
	UntilFinal Kind = "until-final" // the same; the server must come to an end
	Read       Kind = "read"        // read once what the server knows, if the profile has a read
	Renew      Kind = "renew"       // the same request, until its answer is a new one
	Look       Kind = "look"        // read what became of the key, until that is final; never send the request again
)

// The steps that something fails by.
const (
	HoldRequest Kind = "hold request" // the charge of the intent is held before it reaches the PSP
	HoldAnswer  Kind = "hold answer"  // the PSP has executed the charge, and its answer is held
	Reached     Kind = "reached"      // wait until it is held
	Reported    Kind = "reported"     // wait until the PSP has reported the charge in a webhook
	Release     Kind = "release"      // it goes on
	Kill        Kind = "kill -9"
	Start       Kind = "start"
	Pause       Kind = "SIGSTOP"
	Resume      Kind = "SIGCONT"
	Crash       Kind = "crash of the database" // it ends at once, starts again and recovers
	Disorder    Kind = "webhooks in disorder"  // duplicated, out of order, late, and with forgeries
	Silence     Kind = "no webhooks"           // none is ever sent of what is charged from now on
	Order       Kind = "webhooks in order"
	Forge       Kind = "forged webhook" // signed by a stranger: it says that the charge has succeeded
	ShortLives  Kind = "keys end soon"  // the server is started with other settings
	LongLives   Kind = "keys live long" // and with its own again
	Expire      Kind = "the key's time" // wait until the key can be used again
	All         int  = -1               // Intent of a step that is about all of them
)

// The steps of others at the PSP, and what is looked at then.
const (
	RefundElsewhere Kind = "refund in the dashboard" // of half of the payment
	ComeBack        Kind = "refund fails"            // that refund, at the customer's bank
	Dispute         Kind = "dispute"                 // of all that is left of the payment
	Shown           Kind = "shown"                   // wait until the server shows it
	Overdraw        Kind = "refund of it all"        // the client asks for it
)

// Intent is one payment that a client wants.
type Intent struct {
	Tenant  int    // 0 or 1
	Token   string // the PSP's test token
	SameKey int    // number of the intent whose key this one has, counted from 1; 0: a key of its own
}

// Step is one step of a case. Steps that make sense together only have the same group.
type Step struct {
	Kind   Kind
	Intent int // or All
	N      int
	On     int
	Group  int // 0: none
}

// Case is a small history that is played.
type Case struct {
	Level   int
	Name    string
	Intents []Intent
	Steps   []Step
}

// Levels are their names, from level 1 on.
func Levels() []string {
	return []string{
		"retries, one after another", "at once", "other payloads", "lost answers", "late charges", "kill -9",
		"SIGSTOP beyond any lease", "crash of the database", "webhooks in disorder", "two tenants", "others at the PSP",
	}
}

// Alone reports whether the case stops processes or changes what is common to all, so that no other one may run beside
// it.
func (c Case) Alone() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool {
		return s.Kind.Stops() || s.Kind == Disorder || s.Kind == Silence || s.Kind == ShortLives
	})
}

// Stops reports whether a step stops something that runs.
func (k Kind) Stops() bool { return slices.Contains([]Kind{Kill, Start, Pause, Resume, Crash}, k) }

// Has reports whether the case has a step of the kind.
func (c Case) Has(kinds ...Kind) bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return slices.Contains(kinds, s.Kind) })
}

// NeedsTokens reports whether the case needs a test token of the PSP to arrive there.
func (c Case) NeedsTokens() bool {
	return slices.ContainsFunc(c.Intents, func(i Intent) bool { return i.Token != ok })
}

// NeedsTwo reports whether one process has to serve while another one is stopped.
func (c Case) NeedsTwo() bool {
	down := false
	for _, s := range c.Steps {
		switch s.Kind {
		case Kill, Pause:
			down = true
		case Start, Resume:
			down = false
		case UntilFinal, Try:
			if down {
				return true
			}
		}
	}
	return false
}

// Reads reports whether a step only reads.
func (k Kind) Reads() bool { return k == Read || k == Look }

// MayLandLate reports whether a charge can reach the PSP's ledger when all requests have been answered.
func (c Case) MayLandLate() bool {
	return c.Has(HoldRequest) || slices.ContainsFunc(c.Intents, func(i Intent) bool { return i.Token == late })
}

// Of are the cases of a level.
func Of(level int, seed uint64) []Case {
	d := &draw{rand.New(rand.NewPCG(seed, uint64(level)))} //nolint:gosec // levels are small
	cases := []func() []Case{
		d.retries, d.atOnce, d.otherPayloads, d.lostAnswers, d.lateCharges, d.kills, d.pauses, d.crashes, d.webhooks,
		d.tenants, d.others,
	}[level-1]()
	for i := range cases {
		cases[i].Level = level
	}
	return cases
}

// Handshake is the payment that shows whether the server can be graded at all. A final answer is not asked for again:
// what a server does with a retry is for the marks to say.
func Handshake() Case { return one("one payment", ok, Step{Kind: UntilFinal}) }

// Smaller are the cases that are one thing less than c: one payment, one step, or fewer requests at once. Steps of one
// group go together: a process that was not killed is not started again.
func (c Case) Smaller() []Case {
	var all []Case
	for i := range c.Intents {
		if smaller, ok := c.withoutIntent(i); ok {
			all = append(all, smaller)
		}
	}
	done := map[int]bool{}
	for i := len(c.Steps) - 1; i >= 0; i-- {
		s := c.Steps[i]
		if s.Kind == Await || done[s.Group] {
			continue // to wait costs nothing, and keeps the order
		}
		if s.Group > 0 {
			done[s.Group] = true
		}
		smaller := c
		smaller.Steps = nil
		for k, other := range c.Steps {
			if k != i && (s.Group == 0 || other.Group != s.Group) {
				smaller.Steps = append(smaller.Steps, other)
			}
		}
		if smaller.Has(Send) {
			all = append(all, smaller)
		}
	}
	for i, s := range c.Steps {
		if s.Kind == UntilFinal || s.Kind == Try {
			for _, n := range []int{1, 3} { //nolint:mnd // a few requests instead of many
				smaller := c
				smaller.Steps = slices.Clone(c.Steps)
				smaller.Steps[i].Kind, smaller.Steps[i].N = Again, n
				all = append(all, smaller)
			}
		}
		if s.N < 2 { //nolint:mnd // one request is the least
			continue
		}
		for _, n := range []int{1, s.N / 2} { //nolint:mnd // half of them
			smaller := c
			smaller.Steps = slices.Clone(c.Steps)
			smaller.Steps[i].N = n
			all = append(all, smaller)
		}
	}
	return all
}

// withoutIntent leaves a payment out, if there is another one, and none that has its key.
func (c Case) withoutIntent(i int) (Case, bool) {
	if len(c.Intents) == 1 {
		return c, false
	}
	smaller := c
	smaller.Intents, smaller.Steps = nil, nil
	for k, other := range c.Intents {
		switch {
		case k == i:
			continue
		case other.SameKey == i+1:
			return c, false
		case other.SameKey > i+1:
			other.SameKey--
		}
		smaller.Intents = append(smaller.Intents, other)
	}
	for _, s := range c.Steps {
		switch {
		case s.Intent == i && !s.Kind.OfAll():
			continue
		case s.Intent > i:
			s.Intent--
		}
		smaller.Steps = append(smaller.Steps, s)
	}
	return smaller, true
}

// OfAll reports whether a step is about the server, and not about one payment.
func (k Kind) OfAll() bool {
	return k.Stops() || slices.Contains([]Kind{Disorder, Silence, Order, ShortLives, LongLives}, k)
}

// Size is how many payments, steps and requests a case has: less is easier to read.
func (c Case) Size() int {
	n := len(c.Intents)
	for _, s := range c.Steps {
		if s.Kind == UntilFinal || s.Kind == Try {
			n += 5 //nolint:mnd // it may be many requests
			continue
		}
		n += max(1, s.N)
	}
	return n
}
