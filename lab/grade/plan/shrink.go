package plan

import "slices"

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
		case s.Intent == i && !s.Kind.ofAll():
			continue
		case s.Intent > i:
			s.Intent--
		}
		smaller.Steps = append(smaller.Steps, s)
	}
	return smaller, true
}

// ofAll reports whether a step is about the server, and not about one payment.
func (k Kind) ofAll() bool {
	return k.Stops() || slices.Contains([]Kind{Disorder, Order, ShortLives, LongLives}, k)
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
