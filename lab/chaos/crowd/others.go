package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"payonce/internal/payment"
	"payonce/lab/chaos/plan"
	"payonce/lab/world"
)

// elsewhereEvery is how often another program charges in the accounts of the merchants.
const elsewhereEvery = 2 * time.Second

// PayElsewhere is another program of a merchant: it charges in the merchant's account at Stripe without Payonce, until
// ctx ends. Payonce gets events about that, and finds it in each list. It must leave it alone. At a native PSP nobody
// but Payonce has the account.
func (c *Crowd) PayElsewhere(ctx context.Context) {
	if c.o.Stripe.URL == "" {
		return
	}
	for n := 0; world.Wait(ctx, elsewhereEvery); n++ {
		if id := c.payElsewhere(ctx, n); id != "" {
			c.o.Tally.One("client", "elsewhere")
			c.foreignBy.Lock()
			c.foreign = append(c.foreign, id)
			c.foreignBy.Unlock()
		}
	}
}

// Foreign are the PSP's ids of what the other program has done.
func (c *Crowd) Foreign() []string {
	c.foreignBy.Lock()
	defer c.foreignBy.Unlock()
	return slices.Clone(c.foreign)
}

// payElsewhere makes an intent and executes it. Every second one has metadata of its own that look like ours. An intent
// is foreign from its creation on: its confirmation may succeed although no answer comes.
func (c *Crowd) payElsewhere(ctx context.Context, n int) (id string) {
	form := url.Values{"amount": {"777"}, "currency": {"usd"}, "payment_method": {"pm_card_visa"}}
	if n%2 == 0 {
		form.Set("metadata[reference]", fmt.Sprintf("invoice-%d", n))
		form.Set("metadata[idempotency_key]", fmt.Sprintf("invoice-%d", n))
	}
	var made struct {
		ID string `json:"id"`
	}
	if c.postToStripe(ctx, c.account("acme"), "/v1/payment_intents", form, &made) != nil || made.ID == "" {
		return ""
	}
	// Whatever comes of it is foreign.
	_ = c.postToStripe(ctx, c.account("acme"), "/v1/payment_intents/"+made.ID+"/confirm", nil, nil)
	return made.ID
}

func (c *Crowd) postToStripe(ctx context.Context, account, path string, form url.Values, into any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestPatience)
	defer cancel()
	_, err := c.ask(ctx, http.MethodPost, c.o.Stripe.URL+path, form.Encode(), map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Authorization": "Bearer " + c.o.Stripe.Secret,
		"Stripe-Account": account}, into)
	return err
}

// account is a tenant's at the PSP.
func (c *Crowd) account(tenant string) string {
	if c.o.Account == nil {
		return tenant
	}
	return c.o.Account(tenant)
}

const (
	othersEvery = 500 * time.Millisecond // also how long they wait for a client that refunds at the same time
	othersMost  = 1500                   // in a run
	othersTwice = 4                      // of so many refunds, one is asked for twice at once
)

// RefundElsewhere is another program of the merchants, or a person at the PSP's dashboard, that refunds what Payonce
// has charged, in part and whole, until ctx ends. Payonce did not ask for these refunds, and they do not bear its mark.
// Yet they change its payments.
func (c *Crowd) RefundElsewhere(ctx context.Context) {
	luck := c.o.Plan.Carry(c.o.Plan.Clients, 4)
	for n := 0; n < othersMost && world.Wait(ctx, othersEvery); n++ {
		of, by := c.victim(ctx, luck, n)
		if of.ChargeID == "" || strings.HasPrefix(of.ChargeID, payment.OperatorPSPID) {
			continue
		}
		part, times := 1+luck.Int64N(of.Amount), 1
		if luck.IntN(3) == 0 {
			part = of.Amount
		}
		if luck.IntN(othersTwice) == 0 {
			times = 2
		}
		c.atOnce(times, func(i int) {
			if !c.refundElsewhere(ctx, of, fmt.Sprintf("others-%d-%d", n, i), part) {
				return
			}
			if of.ID != "" {
				c.returned.keep(of)
			}
			c.o.Tally.One("outside refund", by)
			c.o.Tally.One("outside refund", map[bool]string{true: "whole", false: "part"}[part == of.Amount])
			if times > 1 {
				c.o.Tally.One("outside refund", "twice")
			}
		})
	}
}

// victim chooses what others refund, if there is anything, and says by what: a payment that a client is just about to
// refund, one that a client knows of, or the charge that the PSP has made last, of which Payonce may not know yet.
func (c *Crowd) victim(ctx context.Context, luck *rand.Rand, n int) (of paid, by string) {
	switch n % 3 {
	case 0:
		limit, cancel := context.WithTimeout(ctx, othersEvery)
		defer cancel()
		select {
		case of = <-c.refunding:
		case <-limit.Done():
		}
		return of, "while a client refunds"
	case 1:
		of, _ = c.known[luck.IntN(len(c.known))].pick(luck.Uint64())
		return of, "of a known payment"
	}
	return c.newestCharge(ctx, plan.Tenants()[luck.IntN(len(plan.Tenants()))]), "of the newest charge"
}

// newestCharge is the last of a tenant's that the PSP has made for Payonce, or nothing.
func (c *Crowd) newestCharge(ctx context.Context, tenant string) paid {
	ledger, err := c.ledger(ctx, url.Values{"account": {c.account(tenant)}})
	if err != nil {
		return paid{}
	}
	for _, e := range slices.Backward(ledger.Charges) {
		if e.Status == "succeeded" && strings.HasPrefix(e.Reference, "pay_") {
			return paid{tenant: tenant, ChargeID: e.ID, Amount: e.AmountCents, Currency: e.Currency}
		}
	}
	return paid{}
}

// refundElsewhere asks the PSP itself, and reports whether it has moved money as far as its answer tells. At Stripe it
// does so without a key, as the dashboard does; a native PSP takes no refund without one.
func (c *Crowd) refundElsewhere(ctx context.Context, of paid, key string, amount int64) bool {
	var made struct {
		Status string `json:"status"`
	}
	if c.o.Stripe.URL != "" {
		form := url.Values{"payment_intent": {of.ChargeID}, "amount": {strconv.FormatInt(amount, 10)}}
		if amount == of.Amount {
			form.Del("amount") // all that is left
		}
		err := c.postToStripe(ctx, c.account(of.tenant), "/v1/refunds", form, &made)
		return err == nil && made.Status == "succeeded"
	}
	c.foreignBy.Lock()
	c.others = append(c.others, key)
	c.foreignBy.Unlock()
	body := fmt.Sprintf(`{"amountCents":%d,"currency":%q,"reason":"by hand"}`, amount, of.Currency)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestPatience)
	defer cancel()
	status, _ := c.ask(ctx, http.MethodPost, "http://"+c.o.PSP+"/v1/charges/"+url.PathEscape(of.ChargeID)+"/refunds",
		body, map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + c.o.PSPSecret,
			"PSP-Account": c.account(of.tenant), "Idempotency-Key": key}, nil)
	return status == http.StatusCreated
}

// Others are the keys that others have refunded under.
func (c *Crowd) Others() []string {
	c.foreignBy.Lock()
	defer c.foreignBy.Unlock()
	return slices.Clone(c.others)
}
