package mockpsp

import "fmt"

// Outbox brings the webhooks of another dialect to their receiver, with the delays, retries and disorders that all
// webhooks have.
type Outbox struct {
	webhooks *webhooks
	find     func(id string) Subject
}

// OutboxConfig says where the webhooks of a dialect go.
type OutboxConfig struct {
	URL    string // empty tells nobody
	Suffix string // of the file beside the ledger that knows which webhooks have ended
	Sign   Signer
	// Find returns what an id names, for the webhooks that are sent by hand, or nil.
	Find func(id string) Subject
}

// NewOutbox goes on with the webhooks, of all that are there, which have not ended. The server closes the outbox. It is
// called before the server serves.
func (s *Server) NewOutbox(of OutboxConfig, all []Subject) (*Outbox, error) {
	config, path := s.config, ""
	config.WebhookURL = of.URL
	if config.LedgerPath != "" {
		path = config.LedgerPath + of.Suffix
	}
	hooks, err := newWebhooks(config, path, of.Sign, s.webhooks.disorders, all)
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	s.outbox = &Outbox{hooks, of.Find}
	return s.outbox, nil
}

// Expect prepares the webhook of something that is durable, and draws its disorders. The webhook goes once release is
// called: when the call that caused it has ended.
func (o *Outbox) Expect(of Subject) (release func()) {
	expected := o.webhooks.expect(of)
	return func() { o.webhooks.release(expected) }
}
