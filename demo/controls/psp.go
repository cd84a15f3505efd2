package controls

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// pspLimit bounds one request to the mock PSP.
const pspLimit = 10 * time.Second

// preset is a set of the mock PSP's rates.
type preset struct{ Name, Label, Means, rates string }

// presets are those that the page offers. The mock PSP's own page has a field for each rate.
func presets() []preset {
	return []preset{
		{"none", "No faults", "Each payment ends as its token says. Webhooks are sent.", `{"rates":{},"webhooks":{}}`},
		{"lossy", "Lossy", "A third of the payments that name no fault lose their answer: some are charged, some are not.",
			`{"rates":{"500_charged":0.1,"500_not_charged":0.05,"timeout_charged":0.1,"silent_charged":0.1},"webhooks":{}}`},
		{"no-webhooks", "Webhooks off", "The PSP sends no webhook. A lost outcome is found by a lookup.",
			`{"rates":{},"webhooks":{"drop":1}}`},
	}
}

func (s *Controls) postFaults(w http.ResponseWriter, r *http.Request) {
	chosen := r.PostFormValue("preset")
	for _, p := range presets() {
		if p.Name != chosen {
			continue
		}
		what, answer := "faults of the PSP: "+p.Label, "set"
		if _, err := s.askPSP(r.Context(), http.MethodPut, "/_faults", p.rates); err != nil {
			answer = "not set: " + err.Error()
		}
		s.told.note(what, answer)
		s.back(w, r, r.PostFormValue("key"))
		return
	}
	http.Error(w, "there is no such preset", http.StatusBadRequest)
}

// postResendWebhook has the PSP send the webhook of the key's charges, also if it has been sent before.
func (s *Controls) postResendWebhook(w http.ResponseWriter, r *http.Request) {
	key := r.PostFormValue("key")
	answer, err := s.resendWebhook(r.Context(), key)
	if err != nil {
		answer = "not sent: " + err.Error()
	}
	s.told.note("the PSP's webhook for "+key+", by hand", answer)
	s.back(w, r, key)
}

func (s *Controls) resendWebhook(ctx context.Context, key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("no payment has been sent")
	}
	query := url.Values{"account": {s.config.Tenant}, "idempotencyKey": {key}}
	raw, err := s.askPSP(ctx, http.MethodGet, "/_ledger?"+query.Encode(), "")
	if err != nil {
		return "", err
	}
	var ledger struct {
		Charges []struct {
			ID string `json:"id"`
		} `json:"charges"`
	}
	if err := json.Unmarshal(raw, &ledger); err != nil {
		return "", fmt.Errorf("read the PSP's ledger: %w", err)
	}
	if len(ledger.Charges) == 0 {
		return "nothing to send: the PSP has not charged this key", nil
	}
	var answers []string
	for _, charge := range ledger.Charges {
		raw, err := s.askPSP(ctx, http.MethodPost, "/_webhooks/"+url.PathEscape(charge.ID), "")
		if err != nil {
			return "", err
		}
		var sent struct {
			Status int `json:"status"`
		}
		if err := json.Unmarshal(raw, &sent); err != nil {
			return "", fmt.Errorf("read the PSP's answer: %w", err)
		}
		if sent.Status == 0 {
			answers = append(answers, charge.ID+": no answer")
			continue
		}
		answers = append(answers, fmt.Sprintf("%s: Payonce answered %d", charge.ID, sent.Status))
	}
	return strings.Join(answers, "; "), nil
}

// askPSP asks one of the mock PSP's control endpoints.
func (s *Controls) askPSP(ctx context.Context, method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pspLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.config.PSPURL+path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the mock PSP: %w", err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the mock PSP: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the mock PSP: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the mock PSP answered %d", res.StatusCode)
	}
	return raw, nil
}
