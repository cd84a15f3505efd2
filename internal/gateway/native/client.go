package native

import (
	"context"
	"errors"
	"net/http"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Name is the name of this dialect.
const Name = "native"

// Client talks to one PSP. It is safe for concurrent use.
type Client struct {
	*wire.Client

	secret   string
	verifier *Verifier
	observe  func(outcome string, took time.Duration)
	now      func() time.Time
}

var _ gateway.PSP = (*Client)(nil)

// New returns a client of the PSP at baseURL. observe is called after every request, with its outcome. verifier is nil
// if no webhooks are taken.
func New(
	baseURL, secret string, l gateway.Limits, verifier *Verifier, now func() time.Time,
	observe func(string, time.Duration),
) (*Client, error) {
	w, err := wire.New("PSP_URL", baseURL, l, now)
	if err != nil {
		return nil, err
	}
	return &Client{Client: w, secret: secret, verifier: verifier, observe: observe, now: now}, nil
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

// authorize sets the headers that every request has.
func (c *Client) authorize(req *http.Request, account, accept string) {
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+c.secret)
	req.Header.Set("PSP-Account", account)
}

// get builds a request that has no effect.
func (c *Client) get(account, pathAndQuery, accept string) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		// Go cuts off spaces around a header. Then the PSP would be asked about another account, and would find
		// nothing.
		if !gateway.IsID(account) {
			return nil, errors.New("no such account")
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+pathAndQuery, http.NoBody)
		if err != nil {
			return nil, errors.New("request could not be built")
		}
		c.authorize(req, account, accept)
		return req, nil
	}
}
