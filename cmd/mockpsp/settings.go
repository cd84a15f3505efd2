package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"payonce/internal/config"
	"time"
)

// settings are the environment variables that the command reads. Durations are written like 3s or 500ms.
type settings struct {
	Addr      string        `env:"MOCKPSP_ADDR" envDefault:"127.0.0.1:8082" desc:"address to listen on; 0.0.0.0:8082 in a container"`
	Ledger    string        `env:"MOCKPSP_LEDGER" envDefault:"./mockpsp-ledger.jsonl" desc:"file that keeps every charge and refund"`
	Secret    string        `env:"MOCKPSP_SECRET" envDefault:"demo-psp-secret" desc:"bearer token that callers of /v1 must send"`
	Seed      uint64        `env:"MOCKPSP_SEED" envDefault:"0" desc:"seed of the random faults; 0 means a new seed at each start"`
	SlowDelay time.Duration `env:"MOCKPSP_SLOW_DELAY" envDefault:"3s" desc:"how long pm_slow pauses before it charges"`
	HangLimit time.Duration `env:"MOCKPSP_HANG_LIMIT" envDefault:"30s" desc:"longest time that the server holds an unanswered request"`
	LateDelay time.Duration `env:"MOCKPSP_LATE_DELAY" envDefault:"4s" desc:"time between the request and the charge of pm_late_charge"`

	WebhookURL      string          `env:"MOCKPSP_WEBHOOK_URL" desc:"receiver of the webhooks; without a receiver, no webhooks are sent"`
	WebhookSecret   string          `env:"MOCKPSP_WEBHOOK_SECRET" envDefault:"whsec_ZGVtby13ZWJob29rLXNlY3JldC1mb3ItcGF5b25jZSEh" desc:"secret that signs the webhooks: whsec_ and 24 to 64 bytes in base64"`
	WebhookDelay    time.Duration   `env:"MOCKPSP_WEBHOOK_DELAY" envDefault:"1s" desc:"time between the end of a request and its webhook"`
	WebhookSchedule []time.Duration `env:"MOCKPSP_WEBHOOK_SCHEDULE" envDefault:"1s,2s,5s,10s,30s,1m,5m,30m,2h,5h,10h,14h" desc:"pauses between the attempts to deliver a webhook; after the last attempt, the webhook is given up"`

	StripeAddr           string        `env:"MOCKPSP_STRIPE_ADDR" desc:"address to speak the dialect of Stripe on, such as 127.0.0.1:8085; without an address, the dialect is off"`
	StripeSecret         string        `env:"MOCKPSP_STRIPE_SECRET" envDefault:"sk_test_demo" desc:"API key that callers of the Stripe dialect must send: sk_ and any text"`
	StripeAPIVersion     string        `env:"MOCKPSP_STRIPE_API_VERSION" envDefault:"2026-02-25.clover" desc:"API version of the accounts: that of the events, and of requests without a Stripe-Version"`
	StripeActionDelay    time.Duration `env:"MOCKPSP_STRIPE_ACTION_DELAY" envDefault:"3s" desc:"how long customers take to authenticate, and bank debits to clear"`
	StripeWebhookURL     string        `env:"MOCKPSP_STRIPE_WEBHOOK_URL" desc:"receiver of the events of the Stripe dialect; without a receiver, no events are sent"`
	StripeWebhookSecrets []string      `env:"MOCKPSP_STRIPE_WEBHOOK_SECRETS" envDefault:"whsec_demo_stripe_webhook_secret" desc:"secrets that sign the events, separated by commas: whsec_ and any text; each makes a signature of its own"`
}

func readSettings(getenv func(string) string) (s settings, err error) {
	if err := config.Parse(&s, getenv); err != nil {
		return settings{}, err
	}
	if s.SlowDelay < 0 || s.HangLimit < 0 || s.LateDelay < 0 || s.WebhookDelay < 0 {
		return settings{}, errors.New("read settings: MOCKPSP_SLOW_DELAY, MOCKPSP_HANG_LIMIT, MOCKPSP_LATE_DELAY and MOCKPSP_WEBHOOK_DELAY must not be negative")
	}
	if s.Seed == 0 {
		s.Seed = rand.Uint64()
	}
	return s, nil
}

const usage = `Usage:
  mockpsp              serve a mock payment provider, with a page at /, until interrupted
  mockpsp healthcheck  ask whether the mock payment provider on MOCKPSP_ADDR answers
  mockpsp --help, mockpsp --version

Exit code: 0 done, 1 failed, 2 the command line is wrong.

Settings, as environment variables with their defaults:
`

func printHelp(out io.Writer) error {
	fmt.Fprint(out, usage)
	return config.Describe(out, nil, settings{})
}
