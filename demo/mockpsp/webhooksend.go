package mockpsp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	staleAge       = 10 * time.Minute
	maxAnswerBytes = 4 << 10 // read of an answer, so that its connection can serve again
)

// webhookSender makes single tries.
type webhookSender struct {
	url     string
	key     []byte
	timeout time.Duration
	now     func() time.Time
	client  *http.Client
	tries   *tryLog
}

// newWebhookSender returns a sender that follows no redirects and goes through no proxy.
func newWebhookSender(config Config) *webhookSender {
	key, _ := webhookKey(config.WebhookSecret) // checked with the config, where there is a URL
	return &webhookSender{
		url:     config.WebhookURL,
		key:     key,
		timeout: config.WebhookTimeout,
		now:     config.Now,
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: webhooksAtOnce, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		tries: &tryLog{},
	}
}

// send makes a try and notes how it ended. Number counts the webhook's tries from 1; 0 is one by hand.
func (s *webhookSender) send(ctx context.Context, e *entry, how disorder, number int) try {
	hook := webhookOf(e)
	at := s.now()
	done := try{
		ID: hook.id, EntryID: e.ID, Type: hook.kind, At: at.UTC().Format(timeLayout), Try: number, Disorder: how,
	}
	status, err := s.post(ctx, hook.id, s.sign(hook, e, how, at))
	done.Status = status
	if err != nil {
		done.Error = err.Error()
	}
	s.tries.add(done)
	return done
}

// signedBody is what a try sends beside its id.
type signedBody struct {
	timestamp, signature string
	body                 []byte
}

// sign signs the webhook as of now. A stale one has a good signature of long ago. A forgery is about another amount,
// and signed by somebody who does not know the secret.
func (s *webhookSender) sign(hook webhook, e *entry, how disorder, now time.Time) signedBody {
	key, body := s.key, hook.body
	switch how {
	case disorderForge:
		altered := *e
		altered.AmountCents++
		key, body = []byte("this is not the secret"), webhookOf(&altered).body
	case disorderStale:
		now = now.Add(-staleAge)
	default:
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	return signedBody{timestamp, webhookSignature(key, hook.id, timestamp, body), body}
}

func (s *webhookSender) post(ctx context.Context, id string, signed signedBody) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(signed.body))
	if err != nil {
		return 0, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "mockpsp")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", signed.timestamp)
	request.Header.Set("Webhook-Signature", signed.signature)
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

func (s *webhookSender) close() { s.client.CloseIdleConnections() }
