package stripe

import (
	"errors"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Name is the name of this dialect.
const Name = "stripe"

// apiVersion is the version of Stripe's API that this package was written for. Stripe answers in the form of this
// version, whatever the account's default is (https://docs.stripe.com/api/versioning). It is the version of the module
// stripe-go v84.4.1.
const apiVersion = "2026-02-25.clover"

// DefaultAccount is the account that the secret belongs to. Requests of other accounts name them in a header, as Stripe
// Connect asks (https://docs.stripe.com/connect/authentication).
const DefaultAccount = "default"

// longestKey is how many characters Stripe takes (https://docs.stripe.com/api/idempotent_requests).
const longestKey = 255

// keyMemory is how long Stripe keeps a key at least (https://docs.stripe.com/api/idempotent_requests).
const keyMemory = 24 * time.Hour

// Config are the settings of a client.
type Config struct {
	// URL is the scheme and host of the API: https://api.stripe.com.
	URL    string
	Secret string
	// WebhookSecrets are the signing secrets that are valid at present. There are several while one replaces another.
	// There are none if no webhooks are taken.
	WebhookSecrets []string
	Limits         gateway.Limits
	Now            func() time.Time
	// Installation returns the id of this installation, or "" while the database has not told it.
	Installation func() string
}

// Client talks to Stripe. It is safe for concurrent use.
type Client struct {
	*wire.Client

	secret         string
	webhookSecrets []string
	now            func() time.Time
	installation   func() string
}

var _ gateway.PSP = (*Client)(nil)

// New returns a client. Its errors repeat nothing of the secrets.
func New(c Config) (*Client, error) {
	if !gateway.IsID(c.Secret) {
		return nil, errors.New("the secret of Stripe must be 1 to 255 printable characters without spaces")
	}
	if modeOf(c.Secret) == "" {
		return nil, errors.New("the secret of Stripe must say its mode: sk_live_…, rk_live_…, sk_test_… or rk_test_…")
	}
	if err := checkSecrets(c.WebhookSecrets); err != nil {
		return nil, err
	}
	w, err := wire.New("STRIPE_URL", c.URL, c.Limits, c.Now)
	if err != nil {
		return nil, err
	}
	return &Client{Client: w, secret: c.Secret, webhookSecrets: c.WebhookSecrets, now: c.Now,
		installation: c.Installation}, nil
}

// Traits are those of Stripe.
func (c *Client) Traits() gateway.Traits {
	return gateway.Traits{
		Name: Name, LongestKey: longestKey, KeyMemory: keyMemory, Proof: gateway.ProofByCancelling, TwoSteps: true,
		NewestFirst: true, ForeignRecords: true, IgnoresEvents: true, Exponents: exponents, Refuses: refuses,
		Redacted: redacted,
	}
}
