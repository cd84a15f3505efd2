package controls

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	maxSending = 16 // requests under way at once
	// patience is how long the client waits. An execution ends within 30 s, and a killed API is back within seconds.
	patience = 40 * time.Second
	// hangUpAfter is long enough for the request to have reached the PSP.
	hangUpAfter = 200 * time.Millisecond
	maxAnswer   = 64 << 10
	maxBooks    = 2 << 20 // of the mock PSP
	maxKey      = 255
)

// The amounts of the demo's payments, in cents.
const (
	usualAmount = 1200
	otherAmount = 9900
)

// payment is what is sent.
type payment struct {
	Key, Token string
	Amount     int
}

// postSend sends what the form asks for, and does not wait for the answer: the page shows it when it comes.
func (s *Controls) postSend(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimSpace(r.PostFormValue("key"))
	if len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		http.Error(w, "the key must be printable ASCII, of 255 characters at most", http.StatusBadRequest)
		return
	}
	if key == "" {
		key = newKey()
	}
	p := payment{Key: key, Token: r.PostFormValue("token"), Amount: usualAmount}
	if p.Token == "" {
		p.Token = "pm_ok"
	}
	switch mode := r.PostFormValue("mode"); mode {
	case "", "once":
		s.send("pay", p, patience)
	case "again":
		if sent, ok := s.told.first(key); ok {
			p = sent
		}
		s.send("the same request again", p, patience)
	case "twice-at-once":
		s.send("pay, first of two at once", p, patience)
		s.send("pay, second of two at once", p, patience)
	case "other-amount":
		if sent, ok := s.told.first(key); ok {
			p.Token = sent.Token
		}
		p.Amount = otherAmount
		s.send("the same key, another amount", p, patience)
	case "hang-up":
		s.send("pay, and hang up", p, hangUpAfter)
	default:
		http.Error(w, "there is no such mode", http.StatusBadRequest)
		return
	}
	s.back(w, r, key, atGuide)
}

// answer is what the client was told. Lost says that the connection has ended before the answer.
type answer struct {
	Text     string
	Status   int
	Replayed bool
	Lost     bool
}

const lostAnswer = "connection lost: the client does not know whether it was charged"

// newKey is a key that nobody has used.
func newKey() string { return "demo-" + strings.ToLower(rand.Text()[:12]) }

// send sends a payment in the background, and gives up after a while.
func (s *Controls) send(what string, p payment, limit time.Duration) {
	select {
	case s.sending <- struct{}{}:
	default:
		s.told.note(what, fmt.Sprintf("not sent: %d requests are under way", maxSending))
		return
	}
	line := s.told.begin(what, p)
	s.active.Go(func() {
		defer func() { <-s.sending }()
		s.told.finish(line, s.pay(s.ctx, s.config.PublicURL, p, limit, false))
	})
}

// pay sends one payment to a server, and says what the client was told. waits asks the server to answer when the
// outcome is known. Otherwise it answers at once: the page shows what the server knows at that moment.
func (s *Controls) pay(ctx context.Context, server string, p payment, limit time.Duration, waits bool) answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"customerId": "cus-demo", "amountCents": p.Amount, "currency": "USD", "paymentMethod": p.Token,
	}, json.Deterministic(true))
	if err != nil {
		return answer{Text: "not sent: " + err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/payments", bytes.NewReader(body))
	if err != nil {
		return answer{Text: "not sent: " + err.Error()}
	}
	req.Header.Set("Authorization", "Bearer "+s.config.APIKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", p.Key)
	prefer := "wait=0"
	if waits {
		prefer = "wait=10"
	}
	req.Header.Set("Prefer", prefer)
	res, err := s.client.Do(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && limit == hangUpAfter:
		return answer{Text: "the client hung up before the answer"}
	case errors.Is(err, context.DeadlineExceeded):
		return answer{Text: fmt.Sprintf("no answer within %s", limit)}
	case err != nil:
		return answer{Text: lostAnswer, Lost: true}
	}
	defer res.Body.Close()
	var told struct {
		Code   string `json:"code"`
		Status any    `json:"status"` // a word in a payment, a number in a problem
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return answer{Text: lostAnswer, Lost: true}
	}
	_ = json.Unmarshal(raw, &told) // what cannot be read is shown by its status alone
	said := told.Code
	if status, ok := told.Status.(string); ok {
		said = status
	}
	replayed := res.Header.Get("Idempotent-Replayed") == "true"
	if replayed {
		said += ", the stored answer"
	}
	said = strings.TrimRight(fmt.Sprintf("%d %s", res.StatusCode, said), " ")
	if wait := res.Header.Get("Retry-After"); wait != "" {
		said += "; try again after " + wait + " s"
	}
	return answer{Text: said, Status: res.StatusCode, Replayed: replayed}
}

// The places of the page that say what a button has done. A browser without a script is led to them.
const (
	atCompare = "#compared"
	atGuide   = "#guide"
	atStop    = "#held-here"
)

// back leads the browser to the page, as an answer to a form.
func (s *Controls) back(w http.ResponseWriter, r *http.Request, key, place string) {
	to := "/demo/"
	if key != "" {
		to += "?" + url.Values{"key": {key}}.Encode()
	}
	http.Redirect(w, r, to+place, http.StatusSeeOther)
}
