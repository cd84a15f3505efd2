package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/go-json-experiment/json"

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

const chargesPath = "/v1/charges"

// tokenForm is the form of the PSP's payment methods.
var tokenForm = regexp.MustCompile(`^pm_[a-z0-9_]{1,61}$`)

// refuses says why the PSP can never take a charge. It takes any refund.
func refuses(r gateway.Request) *gateway.Unacceptable {
	if ch, is := r.(gateway.Charge); is && !tokenForm.MatchString(ch.PaymentMethod) {
		return &gateway.Unacceptable{Member: gateway.TokenMember,
			Detail: "must be a PSP token: pm_ and up to 61 lower-case letters, digits or underscores"}
	}
	return nil
}

// Charge sends ch once.
func (c *Client) Charge(ctx context.Context, ch gateway.Charge) gateway.Outcome {
	body := &struct {
		AmountCents   int64  `json:"amountCents"`
		Currency      string `json:"currency"`
		PaymentMethod string `json:"paymentMethod"`
		Reference     string `json:"reference"`
	}{ch.AmountMinor, ch.Currency, ch.PaymentMethod, ch.Reference}
	return judgeCharge(ch, c.Send(ctx, ch.Account, c.post(ch.Account, ch.Key, chargesPath, body)))
}

// Refund sends r once.
func (c *Client) Refund(ctx context.Context, r gateway.Refund) gateway.Outcome {
	body := &struct {
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
		Reference   string `json:"reference"`
		Reason      string `json:"reason,omitzero"`
	}{r.AmountMinor, r.Currency, r.Reference, r.Reason}
	path := chargesPath + "/" + url.PathEscape(r.ChargeID) + "/refunds"
	return judge(r.Wanted(), c.Send(ctx, r.Account, c.post(r.Account, r.Key, path, body)))
}

// post builds a request that moves money.
func (c *Client) post(account, key, path string, body any) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("marshal request: %w", err)
		}
		req, err := c.request(ctx, http.MethodPost, account, path, "application/json", bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		return req, nil
	}
}

// get builds a request that has no effect.
func (c *Client) get(account, pathAndQuery, accept string) wire.Build {
	return func(ctx context.Context) (*http.Request, error) {
		return c.request(ctx, http.MethodGet, account, pathAndQuery, accept, http.NoBody)
	}
}

// request has the headers that every request has.
func (c *Client) request(
	ctx context.Context, method, account, path, accept string, body io.Reader,
) (*http.Request, error) {
	// Go cuts off spaces around a header. Then the PSP would be asked about another account, and would find nothing.
	if !gateway.IsID(account) {
		return nil, errors.New("no such account")
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return nil, errors.New("request could not be built")
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+c.secret)
	req.Header.Set("PSP-Account", account)
	return req, nil
}
