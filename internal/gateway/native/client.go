package native

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Name is the name of this dialect.
const Name = "native"

// Client talks to one PSP. It is safe for concurrent use.
type Client struct {
	*wire.Client

	secret         string
	webhookSecrets [][]byte
	now            func() time.Time
}

var _ gateway.PSP = (*Client)(nil)

// New returns a client of the PSP at baseURL. There are two webhook secrets while the sender changes from one to the
// other, and none if no webhooks are taken.
func New(
	baseURL, secret string, l gateway.Limits, webhookSecrets []string, now func() time.Time,
) (*Client, error) {
	w, err := wire.New("PSP_URL", baseURL, l, now)
	if err != nil {
		return nil, err
	}
	c := &Client{Client: w, secret: secret, now: now}
	for i, text := range webhookSecrets {
		decoded, err := parseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("WEBHOOK_SECRETS: webhook secret %d of %d %w", i+1, len(webhookSecrets), err)
		}
		c.webhookSecrets = append(c.webhookSecrets, decoded)
	}
	return c, nil
}

// longestKey is how many characters the mock takes. Our own keys have at most 267: a client's 255, and a generation. So
// no key is replaced by its hash, and the ledger has each under its own text.
const longestKey = 300

// Traits are those of the mock.
func (c *Client) Traits() gateway.Traits {
	return gateway.Traits{
		Name: Name, LongestKey: longestKey, KeyMemory: 24 * time.Hour, Proof: gateway.ProofByAbsence,
		Refuses: refuses,
	}
}

// Prepare does nothing: this PSP executes a charge with one request.
func (c *Client) Prepare(context.Context, gateway.Charge) (objectID string, refused gateway.Outcome) {
	return "", nil
}
