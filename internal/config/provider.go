package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The providers that some code knows by name.
const (
	NativePSP = "native"
	StripePSP = "stripe"
)

// provider is one that PSP may name, and the setting that has our secret there.
type provider struct {
	name, setting string
	secret        func(Shared) string
	hint          string // where the secret is to be had
}

// providers are all that there are. No other list of them decides anything.
func providers() []provider {
	return []provider{
		{NativePSP, "PSP_SECRET", func(c Shared) string { return c.PSPSecret },
			"the mock PSP's own default is demo-psp-secret"},
		{StripePSP, "STRIPE_SECRET", func(c Shared) string { return c.StripeSecret },
			"Stripe's dashboard shows it under API keys (sk_test_… for tests)"},
	}
}

// CheckProvider refuses a provider that there is not.
func CheckProvider(name string) error {
	var names []string
	for _, p := range providers() {
		names = append(names, p.name)
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("%q, must be %s", name, strings.Join(names, " or "))
	}
	return nil
}

// Secrets are sent in headers, so they are of printable characters. The publishable key (pk_…) is no secret, and Stripe
// would refuse it only when the first payment is sent. A key that does not say its mode is refused, because the events
// of the other mode could not be told from ours.
var (
	stripeSecret        = regexp.MustCompile(`^[sr]k_(live|test)_[A-Za-z0-9_]{1,247}$`)
	stripeWebhookSecret = regexp.MustCompile(`^whsec_[!-~]{16,128}$`)
)

// The secrets of the demo and of compose.yaml. Everybody knows them, so with such a webhook secret everybody can send
// us events. It is taken only where the provider takes the demo's own secret from us: at the mock PSP.
const (
	demoSecret              = "demo-psp-secret"
	demoWebhookSecret       = "whsec_ZGVtby13ZWJob29rLXNlY3JldC1mb3ItcGF5b25jZSEh"
	demoStripeSecret        = "sk_test_demo"
	demoStripeWebhookSecret = "whsec_demo_stripe_webhook_secret"
)

// checkProviders refuses a provider that there is not, and a secret that cannot be one. It does not repeat a secret.
func (c Shared) checkProviders(bad *refusals) {
	if err := CheckProvider(c.PSP); err != nil {
		bad.refuse("PSP is %w", err)
	}
	if c.StripeSecret != "" && !stripeSecret.MatchString(c.StripeSecret) {
		bad.refuse("STRIPE_SECRET must be a secret key or a restricted key of Stripe's: sk_live_…, rk_live_…, sk_test_… or rk_test_…")
	}
}

// checkWebhooks refuses what is no signing secret, and one that is no secret. A process that takes Stripe's webhooks
// asks Stripe, too.
func (c API) checkWebhooks(bad *refusals) {
	const public = "%s has the demo's secret, which is public, and %s is not the demo's"
	if slices.Contains(c.WebhookSecrets, demoWebhookSecret) && c.PSPSecret != demoSecret {
		bad.refuse(public, "WEBHOOK_SECRETS", "PSP_SECRET")
	}
	if slices.Contains(c.StripeWebhookSecrets, demoStripeWebhookSecret) && c.StripeSecret != demoStripeSecret {
		bad.refuse(public, "STRIPE_WEBHOOK_SECRETS", "STRIPE_SECRET")
	}
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
			"README.md says what runs without settings")
	}
	return nil
}

// CheckProcess refuses to run a process without a database, or without the secret at the provider of new tenants.
// Commands that ask no provider need no secret.
func (c Shared) CheckProcess() error {
	if err := c.CheckDatabase(); err != nil {
		return err
	}
	for _, p := range providers() {
		if p.name == c.PSP && p.secret(c) == "" {
			return fmt.Errorf("%s is not set, and PSP is %s; %s", p.setting, p.name, p.hint)
		}
	}
	return nil
}
