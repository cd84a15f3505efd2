package crowd

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/program"
)

// deadLetter is a dead letter as the operator's API shows it.
type deadLetter struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`
	Tenant     string `json:"tenant"`
	Operation  string `json:"operation"`
	Key        string `json:"key"`
	Generation int    `json:"generation"`
	AgeSeconds int    `json:"ageSeconds"`
	Version    int    `json:"version"`
	KeyStatus  string `json:"keyStatus"`
	PaymentID  string `json:"paymentId"`
	RefundID   string `json:"refundId"`
	Evidence   struct {
		Asked  entry `json:"asked"`
		Answer entry `json:"answer"`
		Record entry `json:"record"`
	} `json:"evidence"`
}

// shows reports whether the dead letter's evidence is money that has moved for what its key stands for, as far as the
// amount tells: no two orders have the same, and the PSP is off by one at most.
func (l deadLetter) shows() bool {
	return slices.ContainsFunc([]entry{l.Evidence.Answer, l.Evidence.Record}, func(e entry) bool {
		off := e.AmountCents - l.Evidence.Asked.AmountCents
		return e.Status == "succeeded" && -1 <= off && off <= 1
	})
}

// entry of the PSP's ledger.
type entry struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Object  string `json:"object"`
	Status  string `json:"status"`

	Reference   string `json:"reference"`
	AmountCents int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	Fault       string `json:"fault"`
}

const (
	operatorRound = time.Second
	refundsOnly   = "POST /payments/{id}/refunds"
)

// Operate closes open dead letters now and then, as somebody does who looks at the PSP's own console, until ctx ends.
// Some dead letters stay open for a while, and some are first retried.
func (c *Crowd) Operate(ctx context.Context) {
	luck := c.o.Plan.Carry(c.o.Plan.Clients, 0)
	for program.Wait(ctx, operatorRound) {
		for _, l := range c.openDeadLetters(ctx, luck) {
			if luck.IntN(3) > 0 {
				c.decide(ctx, luck, l)
			}
		}
	}
}

// CloseDeadLetters closes what is open at the end, round by round, each dead letter in each round, until ctx ends.
func (c *Crowd) CloseDeadLetters(ctx context.Context) {
	luck := c.o.Plan.Carry(c.o.Plan.Clients, 1)
	for again := true; again; again = program.Wait(ctx, operatorRound/2) {
		for _, l := range c.openDeadLetters(ctx, luck) {
			c.decide(ctx, luck, l)
		}
	}
}

// openDeadLetters are a page of them.
func (c *Crowd) openDeadLetters(ctx context.Context, luck *rand.Rand) []deadLetter {
	var page struct {
		Data []deadLetter `json:"data"`
	}
	if status := c.ops(ctx, luck, http.MethodGet, "/operator/dead-letters?status=open&limit=100", nil,
		&page); status != http.StatusOK {
		return nil
	}
	return page.Data
}

// decide looks at the dead letter, at its key, and at the PSP's ledger, and says what fits.
func (c *Crowd) decide(ctx context.Context, luck *rand.Rand, l deadLetter) {
	if c.ops(ctx, luck, http.MethodGet, "/operator/dead-letters/"+l.ID, nil, &l) != http.StatusOK {
		return
	}
	action, pspID := "dismiss", ""
	if l.KeyStatus == "unknown" || l.KeyStatus == "in_progress" {
		found, err := c.inConsole(ctx, l)
		if err != nil {
			return
		}
		action, pspID = fitting(found, luck)
		switch {
		case action != "not_executed" || !l.shows():
		case len(found) > 0:
			action = "retry" // a decline, and money that moved by another record: not to be called not executed
		default:
			action = "executed" // it lies elsewhere, by a mistake of the PSP's: who has seen it vouches for it
		}
	} else if l.Kind == "job_discarded" {
		action = "retry"
	}
	decision := map[string]any{"action": action, "reason": "seen in the PSP's console", "version": l.Version}
	if pspID != "" {
		decision["pspId"] = pspID
	}
	status := c.ops(ctx, luck, http.MethodPost, "/operator/dead-letters/"+l.ID+"/resolve", decision, nil)
	if status == http.StatusConflict && pspID != "" {
		// The PSP has given the id to another payment, too, and its record cannot be read: the operator vouches without
		// an id.
		delete(decision, "pspId")
		status = c.ops(ctx, luck, http.MethodPost, "/operator/dead-letters/"+l.ID+"/resolve", decision, nil)
	}
	switch {
	case status == http.StatusOK:
		c.o.Tally.One("decision", action)
		c.o.Tally.One("dead letter closed", l.Kind)
	case status == http.StatusConflict && action == "retry":
		// There is nothing to find out any more.
		decision["action"] = "dismiss"
		if c.ops(ctx, luck, http.MethodPost, "/operator/dead-letters/"+l.ID+"/resolve", decision,
			nil) == http.StatusOK {
			c.o.Tally.One("decision", "dismiss")
			c.o.Tally.One("dead letter closed", l.Kind)
		}
	case status != 0:
		c.o.Tally.One("decision refused", fmt.Sprintf("%s %d", action, status))
	}
}

// fitting is what the PSP's console leads to. Sometimes the machine is first given another try.
func fitting(found []entry, luck *rand.Rand) (action, pspID string) {
	if luck.IntN(4) == 0 {
		return "retry", ""
	}
	for _, e := range found {
		if e.Status == "succeeded" {
			return "executed", e.ID
		}
	}
	if len(found) > 0 {
		// Declined: a lookup resolves it. If the PSP has declined something else than was asked, only an operator can.
		// So both are tried by turns: what does not fit is refused.
		return []string{"retry", "not_executed"}[luck.IntN(2)], ""
	}
	return "not_executed", ""
}

// inConsole asks what the PSP has really done under the dead letter's key.
func (c *Crowd) inConsole(ctx context.Context, l deadLetter) ([]entry, error) {
	key := l.Key
	if l.Generation > 1 {
		key += fmt.Sprintf(".g%d", l.Generation)
	}
	ledger, err := c.ledger(ctx, url.Values{"account": {c.account(l.Tenant)}, "idempotencyKey": {key}})
	if err != nil {
		return nil, err
	}
	found, of := ledger.Charges, l.PaymentID
	if l.Operation == refundsOnly {
		found, of = ledger.Refunds, l.RefundID
	}
	// What refers to something else is no answer to the question.
	return slices.DeleteFunc(found, func(e entry) bool { return e.Reference != "" && e.Reference != of }), nil
}

// ledger is what the PSP has charged and refunded, and what is disputed: its own books, in both dialects.
type ledger struct {
	Charges  []entry `json:"charges"`
	Refunds  []entry `json:"refunds"`
	Disputes []entry `json:"disputes"`
}

func (c *Crowd) ledger(ctx context.Context, query url.Values) (l ledger, err error) {
	_, err = c.ask(ctx, http.MethodGet, "http://"+c.o.PSP+"/_ledger?"+query.Encode(), "", nil, &l)
	return l, err
}

// ops calls the operator's API, at one of the processes. It returns the status, or 0.
func (c *Crowd) ops(ctx context.Context, luck *rand.Rand, method, path string, body, into any) int {
	text, header := "", map[string]string{"Authorization": "Bearer " + c.o.OperatorKey}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0
		}
		text, header["Content-Type"] = string(raw), "application/json"
	}
	address := c.o.Operators[luck.IntN(len(c.o.Operators))]
	status, err := c.ask(ctx, method, "http://"+address+path, text, header, into)
	if err != nil {
		return 0
	}
	if status == http.StatusInternalServerError {
		c.complain("operator", fmt.Sprintf("%s %s was answered 500", method, path))
	}
	return status
}

// ask sends a request that is no part of the history, and reads the answer into what is given, if it is a 200.
func (c *Crowd) ask(
	ctx context.Context, method, address, body string, header map[string]string, into any,
) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.GetBody = nil // otherwise it would be sent again by itself
	for name, value := range header {
		req.Header.Set(name, value)
	}
	response, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || into == nil {
		return response.StatusCode, err
	}
	return response.StatusCode, json.Unmarshal(raw, into)
}
