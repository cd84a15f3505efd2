package shop

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// The pauses between two tries to register double.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = 10 * time.Second
)

// awaitEndpoint registers until it has succeeded, or until the shop is closed: the API may be away, or the account may
// have as many endpoints as are possible.
func (s *Shop) awaitEndpoint() {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return
		}
		if s.hasEndpoint() {
			return
		}
	}
}

// hasEndpoint registers once.
func (s *Shop) hasEndpoint() bool {
	ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
	defer cancel()
	err := s.register(ctx)
	if err != nil && s.ctx.Err() == nil {
		why := err.Error()
		s.refused.Store(&why)
		s.config.Log.WarnContext(s.ctx, "the shop gets no events yet", slog.Any("error", err))
	}
	return err == nil
}

// register tells Payonce where the shop's events go. An endpoint of an earlier shop is used again, with another secret:
// the shop does not store a secret.
func (s *Shop) register(ctx context.Context) error {
	var all struct {
		Data []struct {
			EndpointID string `json:"endpointId"`
			URL        string `json:"url"`
		} `json:"data"`
	}
	if err := s.ask(ctx, http.MethodGet, "/webhook-endpoints", "", &all); err != nil {
		return err
	}
	url := s.config.Own + deliveriesPath
	path, body := "/webhook-endpoints", fmt.Sprintf(`{"url":%q,"description":"the shop of the demo"}`, url)
	for _, e := range all.Data {
		if e.URL == url {
			path, body = path+"/"+e.EndpointID+"/rotate", `{"overlapSeconds":0}`
			break
		}
	}
	var made struct {
		EndpointID string `json:"endpointId"`
		Secret     string `json:"secret"`
	}
	if err := s.ask(ctx, http.MethodPost, path, body, &made); err != nil {
		return err
	}
	s.secret.Store(&made.Secret)
	// It is disabled if the shop was away for days.
	return s.ask(ctx, http.MethodPost, "/webhook-endpoints/"+made.EndpointID+"/enable", "", &made)
}

// ask sends a request to Payonce.
func (s *Shop) ask(ctx context.Context, method, path, body string, answer any) error {
	r, err := http.NewRequestWithContext(ctx, method, s.config.API+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.config.APIKey)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, raw)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, answer)
}
