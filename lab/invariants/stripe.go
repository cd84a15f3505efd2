package invariants

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// A tenant's provider decides how the PSP is asked. These are the names in the tenants' rows.
const stripePSP = "stripe"

// Stripe is where the objects of that dialect can be read.
type Stripe struct {
	URL    string // straight to the mock PSP, no proxy
	Secret string
}

// Intent is a payment intent, as the PSP shows it.
type Intent struct {
	ID       string            `json:"id"`
	Status   string            `json:"status"`
	Method   string            `json:"payment_method"`
	Metadata map[string]string `json:"metadata"`

	Account string `json:"-"`
}

// ours reports whether Payonce has made it. A lab has one installation.
func (i Intent) ours() bool { return strings.HasPrefix(i.Metadata["origin"], "payonce:") }

// waits reports whether somebody else may still have it executed: the customer, or a bank.
func (i Intent) waits() bool { return i.Status == "processing" || i.Status == "requires_action" }

// Intents lists those of all tenants that Payonce has made.
func Intents(ctx context.Context, e Evidence) ([]Intent, error) {
	if e.Stripe.URL == "" {
		return nil, nil
	}
	e, done := e.withClient()
	defer done()
	b, err := readBooks(ctx, e.DB)
	if err != nil {
		return nil, fmt.Errorf("read the database: %w", err)
	}
	var all []Intent
	for _, account := range b.accounts {
		of, err := e.readIntents(ctx, account)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(of, func(i Intent) bool { return !i.ours() })...)
	}
	return all, nil
}

// readIntents reads all intents of an account.
func (e Evidence) readIntents(ctx context.Context, account string) ([]Intent, error) {
	const most = "100"
	var all []Intent
	for after := ""; ; {
		query := url.Values{"limit": {most}}
		if after != "" {
			query.Set("starting_after", after)
		}
		var page struct {
			Data    []Intent `json:"data"`
			HasMore bool     `json:"has_more"`
		}
		if err := e.getFromStripe(ctx, account, "/v1/payment_intents?"+query.Encode(), &page); err != nil {
			return nil, fmt.Errorf("read the intents of %s: %w", account, err)
		}
		for _, i := range page.Data {
			i.Account = account
			all = append(all, i)
		}
		if !page.HasMore || len(page.Data) == 0 {
			return all, nil
		}
		after = page.Data[len(page.Data)-1].ID
	}
}

func (e Evidence) getFromStripe(ctx context.Context, account, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base(e.Stripe.URL)+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+e.Stripe.Secret)
	request.Header.Set("Stripe-Account", account)
	r, err := e.do(request)
	if err != nil {
		return err
	}
	if r.status != http.StatusOK {
		return fmt.Errorf("%s answered %d", path, r.status)
	}
	return json.Unmarshal(r.body, out)
}

// intents is the part of I1, I4 and I9 about objects that may move money later. The ledger does not have those. A
// payment that has come to its end has left no intent that a customer or a bank could still have executed; and each
// intent of ours is that of a payment.
func intents(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	if e.Stripe.URL == "" {
		return nil, nil
	}
	var found []Violation
	for tenant, account := range w.books.accounts {
		if w.books.psps[tenant] != stripePSP {
			continue
		}
		all, err := e.readIntents(ctx, account)
		if err != nil {
			return nil, err
		}
		for _, i := range all {
			if v := w.books.intentWrong(i); v != nil {
				found = append(found, *v)
			}
		}
	}
	return found, nil
}

func (b *books) intentWrong(i Intent) *Violation {
	if !i.ours() {
		return nil
	}
	row := b.subjectOf(Entry{Reference: i.Metadata["reference"]})
	switch {
	case row == nil || row.PaymentID != nil || b.passThrough(row) != pspKey{i.Account, i.Metadata["idempotency_key"]}:
		return &Violation{"I9", i.Account + " " + i.ID,
			fmt.Sprintf("made for %q under %q, which nobody has reserved", i.Metadata["reference"],
				i.Metadata["idempotency_key"])}
	case i.waits() && row.Status != string(payment.Processing):
		return &Violation{"I4", row.keyName().String(),
			fmt.Sprintf("%s is %s here, and its intent %s is %s: it may still be executed", row, row.Status, i.ID, i.Status)}
	case i.Status != "canceled" && row.Status == string(payment.Failed) && row.ObjectID == i.ID &&
		!b.givenBackUncancelled(row):
		return &Violation{"I8", row.keyName().String(),
			fmt.Sprintf("it was given back as cancelled, and its intent %s is %s, not canceled", i.ID, i.Status)}
	}
	return nil
}

// cancelledAtPSP begins the reason of an owner or a lookup that gives a key back because the intent is cancelled.
const cancelledAtPSP = "the PSP has cancelled it"

// givenBackUncancelled reports whether the last change of the key of a failed payment is that its owner gave it back,
// and did not say that the intent is cancelled. An owner that was told "too many requests" leaves its intent as it is:
// nobody confirms it again. An owner that says "cancelled" may have a confirmation on its way, so it is not excused.
func (b *books) givenBackUncancelled(row *movementRow) bool {
	k := b.lives[row.ID]
	if k == nil {
		return false
	}
	var last eventRow
	for _, e := range b.events {
		if e.From != e.To && (keyName{e.Tenant, e.Operation, e.Key}) == row.keyName() &&
			e.Generation == row.Generation &&
			e.To == string(idempotency.FailedRetryableStatus) {
			last = e
		}
	}
	return last.Actor == string(judge.SourceOwner) && !strings.HasPrefix(last.Reason, cancelledAtPSP)
}

// The longest Idempotency-Key of Stripe.
const longestStripeKey = 255

// stepKey is how a step of an attempt is called at Stripe.
func stepKey(key, suffix string) string {
	return gateway.FitKey(key, longestStripeKey-len(suffix)) + suffix
}

// stripeSends is I6 at Stripe, for one payment or refund: each attempt confirms once at most. Creations are not
// counted, as they move no money, and a lookup sends them again. A refund is sent under one key by all attempts. Where
// a 500 is saved, later attempts pass on to a further key: the second attempt to the second key at most, and so on.
func (e Evidence) stripeSends(ctx context.Context, at pspKey, a allowance) (string, error) {
	type limit struct {
		suffix string
		most   int
	}
	var limits []limit
	for n := range a.attemptsToCharge + 1 { // one more than there were: it must not have been sent
		limits = append(limits, limit{fmt.Sprintf(".confirm.%d", n+1), min(1, a.attemptsToCharge-n)})
	}
	limits = append(limits, limit{".refund", a.attemptsToRefund})
	for n := 1; n < a.attemptsToRefund+1; n++ {
		limits = append(limits, limit{fmt.Sprintf(".refund.%d", n+1), a.attemptsToRefund - n})
	}
	for _, l := range limits {
		c, err := readCalls(ctx, e.HTTP, e.PSP, at.account, stepKey(at.key, l.suffix))
		switch {
		case err != nil:
			return "", err
		case !c.Exact:
			return "", fmt.Errorf("the PSP has lost count of %s %s%s", at.account, at.key, l.suffix)
		case c.Posts > l.most:
			return fmt.Sprintf("%s was sent %d times to the PSP, and may be sent %d times",
				strings.TrimPrefix(l.suffix, "."),
				c.Posts, l.most), nil
		}
	}
	return "", nil
}

// isForeign reports whether somebody else has made an entry, in the same account.
func (e Evidence) isForeign(entry Entry) bool { return slices.Contains(e.Foreign, entry.ID) }

// withoutForeign takes out of a ledger what other programs have done. Payonce must not notice it.
func (l *Ledger) withoutForeign(e Evidence) {
	for _, entry := range l.Charges {
		if e.isForeign(entry) {
			l.foreign = append(l.foreign, entry)
		}
	}
	l.Charges = slices.DeleteFunc(l.Charges, e.isForeign)
}

// foreign is the part of I4 and I5 about what other programs do in the same accounts: no dead letter names it.
func foreign(w world, e Evidence) []Violation {
	var found []Violation
	for _, id := range e.Foreign {
		if w.books.deadLettered[id] {
			found = append(found, Violation{"I4", id, "a dead letter names what another program has done"})
		}
	}
	return found
}
