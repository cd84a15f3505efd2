package mockpsp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	staleAge       = 10 * time.Minute
	maxAnswerBytes = 4 << 10 // read of an answer, so that its connection can serve again
)

// webhookSender makes single tries.
type webhookSender struct {
	url     string
	sign    Signer
	timeout time.Duration
	now     func() time.Time
	client  *http.Client
	tries   *tryLog
}

// newWebhookSender returns a sender that follows no redirects and goes through no proxy.
func newWebhookSender(config Config, sign Signer) *webhookSender {
	return &webhookSender{
		url:     config.WebhookURL,
		sign:    sign,
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
func (s *webhookSender) send(ctx context.Context, of Subject, how disorder, number int) try {
	at := s.now()
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
	s.tries.add(done)
	return done
}

// signed returns the webhook and its signature as of now. A stale one has a good signature of long ago. A forgery is
// about another amount, and signed by somebody who does not know the secret.
func (s *webhookSender) signed(of Subject, how disorder, now time.Time) (Webhook, http.Header) {
	if how == disorderStale {
		now = now.Add(-staleAge)
	}
	hook := of.Webhook(how == disorderForge)
	return hook, s.sign(hook, how == disorderForge, now)
}

func (s *webhookSender) post(ctx context.Context, signed http.Header, body []byte) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
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

func (s *webhookSender) close() { s.client.CloseIdleConnections() }
