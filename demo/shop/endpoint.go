package shop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
)

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
