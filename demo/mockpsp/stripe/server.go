package stripe

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp"
)

// Server speaks the dialect. It is an [http.Handler], and [Server.Serve] serves it; its caller opens the listener.
type Server struct {
	psp        *mockpsp.Server
	config     Config
	log        *slog.Logger
	secretHash [sha256.Size]byte
	handler    http.Handler
	rates      *mockpsp.Rates
	store      *store
	keys       *keys
	timers     mockpsp.Timers // of what is due
	outbox     *mockpsp.Outbox

	paying   sync.Mutex // held while a payout is made
	counting sync.Mutex // held while a refusal is counted and its mark is written
}

// New reads back what the ledger of the PSP has kept of this dialect, and resumes what is due. It must be called before
// the PSP serves.
func New(psp *mockpsp.Server, config Config) (*Server, error) {
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("check the Stripe dialect's config: %w", err)
	}
	s := &Server{
		psp: psp, config: config, log: psp.Config().Log, secretHash: sha256.Sum256([]byte(config.Secret)),
		rates: psp.AddRates("stripe", rateNames()), store: newStore(), keys: newKeys(config.KeyMemory),
	}
	if err := s.restore(); err != nil {
		return nil, err
	}
	psp.OnForget(func(account, key string) (int, error) { return s.forget(keyFilter{account, key}) })
	psp.OnDoor(s)
	s.handler = s.routes()
	return s, nil
}

// restore takes back the changes of the file. What is due is resumed when all of them are there: what has landed is due
// no more.
func (s *Server) restore() error {
	for number, note := range s.psp.TakeNotes() {
		ch, err := readNote(note)
		if err != nil {
			return fmt.Errorf("read note %d of the ledger: %w", number+1, err)
		}
		s.keys.publish(ch, s.store.publish(ch, timeOf(ch)))
	}
	if err := s.openOutbox(); err != nil {
		return err
	}
	for _, ch := range s.store.open() {
		s.schedule(ch)
	}
	return nil
}

func readNote(note []byte) (*change, error) {
	ch := &change{}
	if err := json.Unmarshal(note, ch, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if slices.Contains(ch.Events, nil) {
		return nil, errors.New("an event is null")
	}
	return ch, nil
}

// timeOf is when a change was written, to the second.
func timeOf(ch *change) time.Time {
	switch {
	case len(ch.Events) > 0:
		return time.Unix(ch.Events[0].Created, 0)
	case ch.Answer != nil:
		return ch.Answer.At
	case ch.Payout != nil:
		return time.Unix(ch.Payout.Created, 0)
	default:
		return time.Time{}
	}
}

// open returns what is due, as changes to be scheduled.
func (s *store) open() []*change {
	var open []*change
	for _, b := range s.books {
		for _, i := range b.intents.all {
			open = append(open, &change{Intent: i.newest})
		}
		for _, r := range b.refunds.all {
			open = append(open, &change{Refund: r.newest})
		}
		for _, d := range b.disputes.all {
			open = append(open, &change{Dispute: d.newest})
		}
	}
	for _, r := range s.promises {
		open = append(open, &change{Promise: r})
	}
	return open
}

func (s *Server) now() time.Time { return s.psp.Config().Now() }

// Close stops what is due; the file has it. The ledger stays open: it is the PSP's.
func (s *Server) Close() error {
	s.timers.Stop()
	return nil
}

// Serve serves the dialect until ctx ends, beside the Serve of the PSP, which ends the requests that are held.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.psp.ServeDialect(ctx, l, s, s.Close)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

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
	// APIVersion is the account's version: that of its events, and of requests without a Stripe-Version.
	APIVersion string
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
		APIVersion:     apiVersion,
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
	case !version.MatchString(c.APIVersion):
		return errors.New("the Stripe dialect does not know the API version")
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
