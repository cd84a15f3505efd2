package app

import (
	"fmt"
	"time"

	"payonce/internal/config"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/gateway/stripe"
	"payonce/internal/telemetry"
	"payonce/internal/webhooks"
)

// The last parts of the paths of the PSPs' webhooks. The mock PSP was the only one at first.
const (
	nativePath = "psp"
	stripePath = "stripe"
)

// webhookSecrets are what the PSPs sign their webhooks with. They are empty in a process that takes no webhooks.
type webhookSecrets struct{ native, stripe []string }

// newPSPs makes the providers that this process has settings for. No other package knows which dialects there are.
func newPSPs(c config.Shared, secrets webhookSecrets, metrics *telemetry.Metrics) (gateway.PSPs, error) {
	psps := gateway.PSPs{}
	own, err := native.New(c.PSPURL, c.PSPSecret, limitsOf(c), secrets.native, time.Now)
	if err != nil {
		return nil, err
	}
	if c.PSPSecret != "" || c.PSP == config.NativePSP {
		psps[native.Name] = gateway.Observed(own, time.Now, metrics.PSPRequest)
	}
	if c.StripeSecret == "" {
		return psps, nil
	}
	theirs, err := stripe.New(stripe.Config{
		URL: c.StripeURL, Secret: c.StripeSecret, WebhookSecrets: secrets.stripe, Limits: limitsOf(c), Now: time.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("STRIPE_…: %w", err)
	}
	if most := theirs.Traits().KeyMemory; c.PSPMemory > most {
		return nil, fmt.Errorf("PSP_KEY_MEMORY (%s) must not exceed %s, which is how long Stripe recognises a key",
			c.PSPMemory, most)
	}
	psps[stripe.Name] = gateway.Observed(theirs, time.Now, metrics.PSPRequest)
	return psps, nil
}

func limitsOf(c config.Shared) gateway.Limits {
	limits := gateway.DefaultLimits()
	limits.Dial, limits.Total, limits.InFlight = c.PSPDial, c.PSPTotal, c.PSPInFlight
	limits.BreakerFailures, limits.BreakerOpen = c.PSPBreakerFailures, c.PSPBreakerOpen
	return limits
}

// receivers take the webhooks of each PSP in, by the last part of their path. One is nil where no secret is configured.
func (a *API) receivers() map[string]*webhooks.Receiver {
	all := map[string]*webhooks.Receiver{nativePath: nil, stripePath: nil}
	inbox := webhooks.New(a.db, a.queue.WebhookTx)
	if psp, ok := a.psps[native.Name]; ok && len(a.settings.WebhookSecrets) > 0 {
		all[nativePath] = webhooks.NewReceiver(psp, inbox)
	}
	if psp, ok := a.psps[stripe.Name]; ok && len(a.settings.StripeWebhookSecrets) > 0 {
		all[stripePath] = webhooks.NewReceiver(psp, inbox)
	}
	return all
}
