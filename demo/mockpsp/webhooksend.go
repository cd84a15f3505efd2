package mockpsp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	staleAge       = 10 * time.Minute
	maxAnswerBytes = 4 << 10 // read of an answer, so that its connection can serve again
	maxTries       = 200     // of the latest, which are remembered
)

// try is one webhook sent, or one that a disorder kept back.
type try struct {
	ID       string `json:"id"`
	EntryID  string `json:"entryId"`
	Type     string `json:"type"`
	At       string `json:"at"`
	Try      int    `json:"try"` // from 1; 0 by hand, or not sent
	Status   int    `json:"status,omitzero"`
	Error    string `json:"error,omitempty"`
	Disorder string `json:"disorder,omitempty"`
}

func (t try) delivered() bool { return t.Status >= 200 && t.Status < 300 }

// Outcome says on the page how the try ended.
func (t try) Outcome() string {
	switch {
	case t.Status != 0:
		return http.StatusText(t.Status)
	case t.Error != "":
		return t.Error
	default:
		return "not sent"
	}
}

// webhookSender makes single tries, and remembers the latest.
type webhookSender struct {
	config Config
	sign   Signer
	client *http.Client

	mu     sync.Mutex
	latest []try // oldest first
}

// newWebhookSender returns a sender that follows no redirects and goes through no proxy.
func newWebhookSender(config Config, sign Signer) *webhookSender {
	return &webhookSender{
		config: config,
		sign:   sign,
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: webhooksAtOnce, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// send makes a try and notes how it ended. Number counts the webhook's tries from 1; 0 is one by hand.
func (s *webhookSender) send(ctx context.Context, of Subject, how string, number int) try {
	at := s.config.Now()
	hook, header := s.signed(of, how, at)
	done := try{
		ID: hook.ID, EntryID: of.SubjectID(), Type: hook.Kind, At: at.UTC().Format(timeLayout), Try: number,
		Disorder: how,
	}
	status, err := s.post(ctx, header, hook.Body)
	done.Status = status
	if err != nil {
		done.Error = err.Error()
	}
	s.remember(done)
	return done
}

// skip notes a webhook that is never sent.
func (s *webhookSender) skip(of Subject) {
	hook := of.Webhook(false)
	s.remember(try{
		ID: hook.ID, EntryID: of.SubjectID(), Type: hook.Kind, At: s.config.Now().UTC().Format(timeLayout),
		Disorder: disorderDrop,
	})
}

func (s *webhookSender) remember(t try) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = append(s.latest[max(0, len(s.latest)+1-maxTries):], t)
}

func (s *webhookSender) newestFirst() []try {
	s.mu.Lock()
	defer s.mu.Unlock()
	tries := slices.Clone(s.latest)
	slices.Reverse(tries)
	return tries
}

// signed returns the webhook and its signature as of now. A stale one has a good signature of long ago. A forgery is
// about another amount, and signed by somebody who does not know the secret.
func (s *webhookSender) signed(of Subject, how string, now time.Time) (Webhook, http.Header) {
	if how == disorderStale {
		now = now.Add(-staleAge)
	}
	hook := of.Webhook(how == disorderForge)
	return hook, s.sign(hook, how == disorderForge, now)
}

func (s *webhookSender) post(ctx context.Context, signed http.Header, body []byte) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.WebhookTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.WebhookURL, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("make request: %w", err)
	}
	request.Header = signed
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "mockpsp")
	response, err := s.client.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // which URL is known
		}
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswerBytes) // the status has said it all
	return response.StatusCode, nil
}

// curl writes the command that sends the webhook. The receiver takes the signature for some minutes.
func (s *webhookSender) curl(of Subject) string {
	hook, header := s.signed(of, "", s.config.Now())
	target := s.config.WebhookURL
	if parsed, err := url.Parse(s.config.WebhookURL); err == nil {
		target = parsed.Redacted()
	}
	var signed strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(&signed, "  -H %s \\\n", quoteForShell(strings.ToLower(name)+": "+header.Get(name)))
	}
	return fmt.Sprintf("curl -i %s -H 'Content-Type: application/json' \\\n%s  --data-raw %s\n",
		quoteForShell(target), signed.String(), quoteForShell(string(hook.Body)))
}

// quoteForShell makes one word of a text, whatever is in it. References and reasons are chosen by others.
func quoteForShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
