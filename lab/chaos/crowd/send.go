package crowd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/chaos/plan"
	"payonce/lab/history"
)

// request is one to an API, chosen by its index.
type request struct {
	method, path string
	tenant, key  string
	route        string
	intent, body string
	order        int64 // the number of the order that is paid for; 0 of anything else
	life         int   // of the key; 0: the latest
	prefer       string
	quoted       bool
	api          int
	header       http.Header // instead of what there would be
	giveUp       time.Duration
}

// answer is what came, or zero.
type answer struct {
	status   int
	body     []byte
	code     string
	subject  string // the payment or refund that it names
	replayed bool
	unsent   bool // the key was not to be used at that time
}

// final reports whether the answer is the key's for good.
func (a answer) final() bool {
	return a.status == http.StatusCreated || a.status == http.StatusPaymentRequired
}

// again reports whether the same request may be sent again, with a hope of another answer.
func (a answer) again() bool {
	if a.unsent {
		return false
	}
	switch a.status {
	case 0, http.StatusAccepted, http.StatusTooManyRequests, http.StatusServiceUnavailable,
		http.StatusInternalServerError, http.StatusBadGateway:
		return true
	case http.StatusConflict:
		return a.code == "idempotency_key_in_progress" || a.code == "idempotency_key_held"
	}
	return false
}

func (c *Crowd) payment(e plan.Errand, o plan.Order) request {
	return request{
		method: http.MethodPost, path: "/payments", route: history.PaymentsRoute, tenant: e.Tenant, key: e.Key,
		intent: o.Intent(),
		order:  o.Number, body: o.Body(e.N), prefer: e.Prefer, quoted: e.Quoted, api: e.N,
	}
}

// send sends the request once, and records it. It waits for its turn.
func (c *Crowd) send(ctx context.Context, client int, r request) answer {
	if c.limiter.Wait(ctx) != nil {
		return answer{}
	}
	if !r.keyed() || r.life > 0 {
		return c.sendNow(ctx, client, r)
	}
	number, how, ok := c.lives.enter(r)
	if !ok {
		return answer{unsent: true}
	}
	r.life = number
	a := c.sendNow(ctx, client, r)
	c.lives.leave(r, a.subject != "")
	if a.status != 0 && number > 1 {
		c.o.Tally.One("answer after "+how, fmt.Sprint(a.status))
	}
	return a
}

func (c *Crowd) sendNow(ctx context.Context, client int, r request) answer {
	// From here on the run's end does not cut it off: only the client itself does.
	limit := requestPatience
	if r.giveUp > 0 {
		limit = r.giveUp
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	address := c.o.APIs[r.api%len(c.o.APIs)]
	req, err := c.spell(sending, address, r)
	if err != nil {
		c.complain("client", err.Error())
		return answer{}
	}
	path, _, _ := strings.Cut(r.path, "?")
	pending := c.o.Recorder.Begin(history.Operation{
		Client: client, API: address, Tenant: r.tenant, Route: r.route, Path: path, Key: r.key, Life: r.life,
		Prefer: r.prefer,
		Intent: r.intent, Body: []byte(r.body),
	})
	response, err := c.http.Do(req) //nolint:bodyclose // Response closes it
	body, failed := pending.Response(response, err)
	if failed != nil {
		c.o.Tally.One("answer", "none")
		return answer{}
	}
	return c.heard(r, response, body)
}

func (c *Crowd) spell(ctx context.Context, address string, r request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, "http://"+address+r.path,
		io.NopCloser(strings.NewReader(r.body)))
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(r.body))
	if r.body == "" {
		req.Body = http.NoBody
	}
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	set("Authorization", "Bearer "+c.o.Keys[r.tenant])
	set("Prefer", r.prefer)
	if r.method == http.MethodPost {
		set("Content-Type", "application/json")
		key := r.key
		if r.quoted {
			key = `"` + key + `"`
		}
		set("Idempotency-Key", key)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	return req, nil
}

func (c *Crowd) heard(r request, response *http.Response, body []byte) answer {
	var told struct {
		Code      string `json:"code"`
		PaymentID string `json:"paymentId"`
		RefundID  string `json:"refundId"`
	}
	_ = json.Unmarshal(body, &told)
	a := answer{status: response.StatusCode, body: body, code: told.Code, subject: told.PaymentID + told.RefundID,
		replayed: response.Header.Get("Idempotent-Replayed") == "true"}
	name := fmt.Sprint(a.status)
	if a.code != "" {
		name += " " + a.code
	}
	c.o.Tally.One("answer", name)
	if a.replayed && a.final() {
		c.o.Tally.One("replay", name)
	}
	if a.status == http.StatusInternalServerError {
		c.complain(r.method+" "+r.path, fmt.Sprintf("500 for the key %s at %s: %s", r.key, response.Request.URL.Host,
			body))
	}
	return a
}
