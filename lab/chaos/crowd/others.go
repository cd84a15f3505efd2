package crowd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"payonce/lab/program"
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
	for n := 0; program.Wait(ctx, elsewhereEvery); n++ {
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
