package stripe

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"payonce/demo/mockpsp"
)

const secretPrefix = "whsec_"

// DemoSecret and DemoWebhookSecret are the secrets of the demo. They are as public as these lines.
const (
	DemoSecret        = "sk_test_demo"
	DemoWebhookSecret = secretPrefix + "demo_stripe_webhook_secret"
)

// maxSecrets is how many signatures a webhook has at most, while secrets are being replaced.
const maxSecrets = 5

// Config is what the dialect needs beside the config of the mock PSP. Start from [DefaultConfig].
type Config struct {
	// Secret is the API key, sk_…, which opens all accounts.
	Secret string
	// ActionDelay is how long customers take to authenticate, and debits to clear.
	ActionDelay time.Duration
	// SearchLag is how long after its creation an intent is found by the search.
	SearchLag time.Duration
	// KeyMemory is how long the result of a request is saved under its key.
	KeyMemory time.Duration

	// WebhookURL is who is told of each event. Empty tells nobody.
	WebhookURL string
	// WebhookSecrets sign the webhooks, each with a signature of its own: whsec_ and any text.
	WebhookSecrets []string
}

// DefaultConfig returns the settings of the demo: keys are remembered for 24 hours, and the search lags by a minute.
func DefaultConfig() Config {
	return Config{
		Secret:         DemoSecret,
		ActionDelay:    3 * time.Second,
		SearchLag:      time.Minute,
		KeyMemory:      24 * time.Hour,
		WebhookSecrets: []string{DemoWebhookSecret},
	}
}

// Check returns what is wrong with the config. It quotes no secret.
func (c Config) Check() error {
	switch {
	case !strings.HasPrefix(c.Secret, "sk_"):
		return errors.New("the secret of the Stripe dialect does not begin with sk_")
	case c.ActionDelay < 0 || c.SearchLag < 0:
		return errors.New("a delay of the Stripe dialect is negative")
	case c.KeyMemory <= 0:
		return errors.New("the Stripe dialect must remember keys for some time")
	case c.WebhookURL == "":
		return nil
	}
	if err := mockpsp.CheckWebhookURL(c.WebhookURL); err != nil {
		return fmt.Errorf("the Stripe dialect: %w", err)
	}
	if len(c.WebhookSecrets) < 1 || len(c.WebhookSecrets) > maxSecrets {
		return fmt.Errorf("the Stripe dialect needs 1 to %d webhook secrets", maxSecrets)
	}
	for _, secret := range c.WebhookSecrets {
		if !strings.HasPrefix(secret, secretPrefix) || secret == secretPrefix {
			return errors.New("a webhook secret of the Stripe dialect is not whsec_ and some text")
		}
	}
	return nil
}
