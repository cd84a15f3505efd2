package config

import (
	"errors"
	"regexp"
)

// The providers that PSP may name.
const (
	NativePSP = "native"
	StripePSP = "stripe"
)

// Secrets are sent in headers, so they are of printable characters. The publishable key (pk_…) is no secret, and Stripe
// would refuse it only when the first payment is sent.
var (
	stripeSecret        = regexp.MustCompile(`^[sr]k_[A-Za-z0-9_]{1,252}$`)
	stripeWebhookSecret = regexp.MustCompile(`^whsec_[!-~]{16,128}$`)
)

// checkProviders refuses a provider that there is not, and a secret that cannot be one. It does not repeat a secret.
func (c Shared) checkProviders(bad *refusals) {
	if c.PSP != NativePSP && c.PSP != StripePSP {
		bad.refuse("PSP is %q, must be native or stripe", c.PSP)
	}
	if c.StripeSecret != "" && !stripeSecret.MatchString(c.StripeSecret) {
		bad.refuse("STRIPE_SECRET must be a secret key (sk_…) or a restricted key (rk_…) of Stripe's")
	}
}

// checkStripeWebhooks refuses what is no signing secret. A process that takes Stripe's webhooks asks Stripe, too.
func (c API) checkStripeWebhooks(bad *refusals) {
	if len(c.StripeWebhookSecrets) > 0 && c.StripeSecret == "" {
		bad.refuse("STRIPE_WEBHOOK_SECRETS is set, and STRIPE_SECRET is not: set both, or neither")
	}
	for i, secret := range c.StripeWebhookSecrets {
		if !stripeWebhookSecret.MatchString(secret) {
			bad.refuse("STRIPE_WEBHOOK_SECRETS must be whsec_… secrets, separated by commas: number %d is none", i+1)
		}
	}
}

// CheckDatabase refuses to do anything without a database.
func (c Shared) CheckDatabase() error {
	if c.DatabaseURL == "" {
		return errors.New("DATABASE_URL is not set; example: postgres://user:password@host:5432/payonce. " +
			"make demo runs everything without settings")
	}
	return nil
}

// CheckProcess refuses to run a process without a database, or without the secret at the provider of new tenants.
// Commands that ask no provider need no secret.
func (c Shared) CheckProcess() error {
	switch {
	case c.DatabaseURL == "":
		return c.CheckDatabase()
	case c.PSP == StripePSP && c.StripeSecret == "":
		return errors.New("STRIPE_SECRET is not set, and PSP is stripe; Stripe's dashboard shows it under API keys (sk_test_… for tests)")
	case c.PSP != StripePSP && c.PSPSecret == "":
		return errors.New("PSP_SECRET is not set; the mock PSP's own default is demo-psp-secret")
	}
	return nil
}
