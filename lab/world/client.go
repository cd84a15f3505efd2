package world

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Request to an API. Method is POST unless it is given.
type Request struct {
	Method, Path string
	As           string // API key
	Key          string // Idempotency-Key; empty for none
	Body         string
	Header       http.Header
}

// Answer as the client got it, whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

const (
	clientPatience = 20 * time.Second
	maxAnswer      = 16 << 20
)

// Client calls processes directly, without a proxy. It is safe for concurrent use.
type Client struct{ http *http.Client }

// NewClient has connections of its own.
func NewClient() *Client {
	return &Client{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: clientPatience}}
}

// Close gives the idle connections up.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do sends the request once: nothing is ever sent again by itself, as what happens to a single request is what this is
// about.
func (c *Client) Do(ctx context.Context, address string, r Request) (Answer, error) {
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, "http://"+address+r.Path, strings.NewReader(r.Body))
	if err != nil {
		return Answer{}, err
	}
	req.GetBody = nil
	for name, values := range r.Header {
		req.Header[name] = values
	}
	if r.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.As != "" {
		req.Header.Set("Authorization", "Bearer "+r.As)
	}
	if r.Key != "" {
		req.Header.Set("Idempotency-Key", r.Key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{res.StatusCode, res.Header, body}, nil
}

// Payment is a request for one of 120 dollars, with all that can be asked for. What it asks for is the key's own.
func (k Keys) Payment(key, paymentMethod string) Request {
	return Request{
		Path: "/payments", As: k.Acme, Key: key,
		Body: fmt.Sprintf(`{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":%q,"reference":%q,"description":%q,"metadata":{"order":%q}}`,
			paymentMethod, "order "+key, "ordered as "+key, key),
	}
}

// SetFaults tells the mock PSP at an address how often to fail, by the names that PUT /_faults has.
func SetFaults(ctx context.Context, address string, rates any) error {
	raw, err := json.Marshal(rates)
	if err != nil {
		return err
	}
	client := NewClient()
	defer client.Close()
	a, err := client.Do(ctx, address, Request{Method: http.MethodPut, Path: "/_faults", Body: string(raw)})
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err != nil {
		return fmt.Errorf("set faults: %w", err)
	}
	return nil
}

// toldEvery is the pause between two looks.
const toldEvery = 250 * time.Millisecond

// AwaitTold waits until the mock PSP at the address has sent the webhooks that it is going to send, or has had its time
// for that, which ends with ctx: one that came later would disturb the calm in which everything is judged.
func AwaitTold(ctx context.Context, address string) {
	client := NewClient()
	defer client.Close()
	_ = Until(ctx, toldEvery, func() (bool, error) {
		var told struct {
			Pending int `json:"pending"`
			Dialect struct {
				Pending int `json:"pending"`
			} `json:"dialect"`
		}
		a, err := client.Do(ctx, address, Request{Method: http.MethodGet, Path: "/_webhooks"})
		return err == nil && json.Unmarshal(a.Body, &told) == nil && a.Status == http.StatusOK &&
			told.Pending+told.Dialect.Pending == 0, nil
	})
}
