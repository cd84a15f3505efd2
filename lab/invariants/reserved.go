package invariants

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"payonce/internal/idempotency"
)

// reserved is the part of I9 that is still to be seen afterwards: what the PSP has was reserved at some time, and a
// payment has its key.
func reserved(w world) []Violation {
	var found []Violation
	for _, entries := range [][]Entry{w.ledger.Charges, w.ledger.Refunds} {
		for _, e := range entries {
			switch row := w.books.subjectOf(e); {
			case w.books.stray(&e), w.isOutside(e):
			case row == nil:
				found = append(found, Violation{"I9", e.name(),
					fmt.Sprintf("%s is for %q, which is nothing of ours", e.ID, e.Reference)})
			case w.books.passThrough(row) != pspKey{e.Account, e.IdempotencyKey}:
				found = append(found, Violation{"I9", e.name(),
					fmt.Sprintf("%s for %s is under a key that nobody has reserved", e.ID, row)})
			}
		}
	}
	for _, m := range w.books.subjects {
		if k := w.books.lives[m.ID]; k == nil || k.name() != m.keyName() || k.Generation != m.Generation {
			found = append(found, Violation{"I9", m.keyName().String(),
				fmt.Sprintf("%s is there, and the key does not stand for it", m)})
		}
	}
	for name, k := range w.books.keys {
		if w.books.subjects[k.Subject] == nil {
			found = append(found, Violation{"I9", name.String(), "the key stands for nothing that is there"})
		}
	}
	return found
}

// pspKey is a key as the PSP sees it.
type pspKey struct{ account, key string }

// passedThrough lists the keys that we may have sent on, with the attempts that each has had, less those whose owner
// says that it has not sent.
func (b *books) passedThrough() map[pspKey]allowance {
	attempts, unsent := map[pspKey]allowance{}, b.givenBack()
	for _, m := range b.subjects {
		k := b.lives[m.ID]
		if k == nil || k.name() != m.keyName() {
			continue
		}
		had := int(k.Attempt) - unsent[keyGeneration{k.name(), m.Generation}]
		at := b.passThrough(m)
		a := attempts[at]
		a.atStripe = b.psps[m.Tenant] == stripePSP
		if m.PaymentID != nil {
			a.attemptsToRefund = int(k.Attempt)
			a.refunds += had
		} else {
			a.attemptsToCharge = int(k.Attempt)
			a.charges += had
		}
		attempts[at] = a
	}
	return attempts
}

// allowance is how often something may have been sent. Equal keys of a payment and a refund are counted as one by the
// PSP.
type allowance struct {
	charges, refunds int

	atStripe                           bool // each step of each attempt has a key of its own there
	attemptsToCharge, attemptsToRefund int
}

// exceeded says by which of the calls, or "".
func (a allowance) exceeded(c calls) string {
	const text = "sent %d times to the PSP, in %d attempts that did not deny it"
	if c.Posts > a.charges+a.refunds {
		return fmt.Sprintf(text, c.Posts, a.charges+a.refunds)
	}
	refunds, known := c.refunds()
	switch {
	case !known:
		return ""
	case refunds > a.refunds:
		return "as a refund " + fmt.Sprintf(text, refunds, a.refunds)
	case c.Posts-refunds > a.charges:
		return "as a charge " + fmt.Sprintf(text, c.Posts-refunds, a.charges)
	}
	return ""
}

type keyGeneration struct {
	key        keyName
	generation int32
}

// passThrough is the key that a movement was sent under.
func (b *books) passThrough(m *movementRow) pspKey {
	e := idempotency.Execution{Ref: idempotency.StoredRef(m.Tenant, m.operation(), m.Key), Generation: m.Generation}
	return pspKey{b.accounts[m.Tenant], e.PassThroughKey()}
}

// sends is I6: no send without the right to it, which is an attempt. And what was sent under a key of nobody's is I9.
func sends(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	attempts := w.books.passedThrough()
	all, err := readCalls(ctx, e.HTTP, e.PSP, "", "")
	if err != nil {
		return nil, err
	}
	explained := 0
	type counted struct {
		key   pspKey
		calls calls
		wrong string // at Stripe
	}
	counts := make(chan counted, len(attempts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	stripe := false
	for k, a := range attempts {
		stripe = stripe || a.atStripe
		group.Go(func() error {
			if a.atStripe {
				wrong, err := e.stripeSends(ctx, k, a)
				counts <- counted{key: k, wrong: wrong}
				return err
			}
			c, err := readCalls(ctx, e.HTTP, e.PSP, k.account, k.key)
			if err == nil && !c.Exact {
				err = fmt.Errorf("the PSP has lost count of %s %s", k.account, k.key)
			}
			counts <- counted{key: k, calls: c}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	close(counts)
	var found []Violation
	for c := range counts {
		explained += c.calls.Posts
		if why := cmp.Or(c.wrong, attempts[c.key].exceeded(c.calls)); why != "" {
			found = append(found, Violation{"I6", c.key.account + " " + c.key.key, why})
		}
	}
	// At Stripe, not each post can move money, and other programs post too. Reservations sees each post of ours there.
	if all.Posts > explained && !stripe {
		found = append(found, Violation{"I9", "all accounts",
			fmt.Sprintf("%d of %d requests to move money were under keys that nobody has reserved",
				all.Posts-explained, all.Posts)})
	}
	return found, nil
}
