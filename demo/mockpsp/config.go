package mockpsp

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"time"
)

const (
	maxWebhookGaps = 100
	maxWebhookGap  = 30 * 24 * time.Hour
)

// Config is what a Server needs. Start from [DefaultConfig]: New takes no zero value for a default.
type Config struct {
	// LedgerPath is the ledger's file, created when missing. Empty keeps the ledger in memory only: then Close
	// loses it, together with late charges that have not landed.
	LedgerPath string
	// Secret is what callers of /v1 send as their bearer token.
	Secret string
	// Now dates the entries. Pauses run on the real clock.
	Now func() time.Time
	// Rand draws the faults of PUT /_faults, one draw for each request that is eligible, in their order of arrival, and
	// seeds the draws for webhooks, which disturb those of the faults in nothing. The server is its only user.
	Rand *rand.Rand
	Log  *slog.Logger

	// SlowDelay is how long pm_slow waits before it charges.
	SlowDelay time.Duration
	// HangLimit is the longest that a request is held that never gets an answer. It ends earlier when the client goes.
	HangLimit time.Duration
	// LateDelay is how long after closing the connection pm_late_charge lands, and how long after it was made an entry
	// is booked that is booked late.
	LateDelay time.Duration

	// WebhookURL is who is told of each entry. Empty tells nobody.
	WebhookURL string
	// SilentAccount is an account whose entries no webhook tells of. Empty: there is none.
	SilentAccount string
	// WebhookSecret signs the webhooks: whsec_ and the base64 of 24 to 64 bytes.
	WebhookSecret string
	// WebhookDelay is how long after the end of the call that made the entry its webhook is sent first. A call ends
	// when it is answered, given up or closed, so that no webhook is ahead of a client that still waits.
	WebhookDelay time.Duration
	// WebhookExtraDelay is the further pause of a delayed webhook, and the longest that a reordered one is held.
	WebhookExtraDelay time.Duration
	// WebhookTimeout is how long the receiver may take for an answer.
	WebhookTimeout time.Duration
	// WebhookSchedule holds the gaps between a failed try and the next; each is stretched by up to a tenth. When the
	// last try has failed, the webhook is given up.
	WebhookSchedule []time.Duration
}

// DefaultConfig returns a ledger in memory, the secret demo-psp-secret, the real clock, unpredictable faults, no log,
// and webhooks that lack nothing but a URL. The demo sets a LateDelay of its own.
func DefaultConfig() Config {
	return Config{
		Secret:    "demo-psp-secret",
		Now:       time.Now,
		Rand:      rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		Log:       slog.New(slog.DiscardHandler),
		SlowDelay: 3 * time.Second,
		HangLimit: 30 * time.Second,
		LateDelay: 4 * time.Second,

		WebhookSecret:     DemoWebhookSecret,
		WebhookDelay:      time.Second,
		WebhookExtraDelay: 5 * time.Second,
		WebhookTimeout:    5 * time.Second,
		WebhookSchedule: []time.Duration{
			time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
			time.Minute, 5 * time.Minute, 30 * time.Minute,
			2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
		},
	}
}

// Check returns what is wrong with the config. It quotes no secret.
func (c Config) Check() error {
	switch {
	case c.Secret == "":
		return errors.New("the secret is empty")
	case c.Now == nil || c.Rand == nil || c.Log == nil:
		return errors.New("a clock, randomness and a logger are required: start from DefaultConfig")
	case c.SlowDelay < 0 || c.HangLimit < 0 || c.LateDelay < 0 || c.WebhookDelay < 0 || c.WebhookExtraDelay < 0:
		return errors.New("a delay is negative")
	case c.WebhookURL == "":
		return nil
	default:
		return c.checkWebhooks()
	}
}

// CheckWebhookURL refuses what is no absolute http or https URL. It does not quote the URL, which may hold a password.
func CheckWebhookURL(text string) error {
	target, err := url.Parse(text)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" {
		return errors.New("the webhook URL is not an absolute http or https URL")
	}
	return nil
}

func (c Config) checkWebhooks() error {
	if err := CheckWebhookURL(c.WebhookURL); err != nil {
		return err
	}
	if _, err := webhookKey(c.WebhookSecret); err != nil {
		return err
	}
	if c.WebhookTimeout <= 0 {
		return errors.New("the webhook timeout is not positive")
	}
	if len(c.WebhookSchedule) > maxWebhookGaps {
		return fmt.Errorf("the webhook schedule has more than %d gaps", maxWebhookGaps)
	}
	for _, gap := range c.WebhookSchedule {
		if gap < 0 || gap > maxWebhookGap {
			return fmt.Errorf("a gap of the webhook schedule is not within 0 and %v", maxWebhookGap)
		}
	}
	return nil
}
