package controls

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

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

// presetOf names the preset whose rates the mock PSP has, or nothing. A rate that a preset does not name is 0, also one
// of another dialect.
func presetOf(raw []byte) string {
	type rates map[string]map[string]float64
	parse := func(text []byte) rates {
		var all rates
		if json.Unmarshal(text, &all) != nil {
			return nil
		}
		for _, member := range all {
			maps.DeleteFunc(member, func(_ string, rate float64) bool { return rate == 0 })
		}
		maps.DeleteFunc(all, func(_ string, member map[string]float64) bool { return len(member) == 0 })
		return all
	}
	has := parse(raw)
	for _, p := range presets() {
		wants := parse([]byte(p.rates))
		if has != nil && maps.EqualFunc(has, wants, maps.Equal[map[string]float64, map[string]float64]) {
			return p.Name
		}
	}
	return ""
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
		s.back(w, r, r.PostFormValue("key"), atGuide)
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
	s.back(w, r, key, atGuide)
}

func (s *Controls) resendWebhook(ctx context.Context, key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("no payment has been sent")
	}
	ledger, err := s.ledgerOf(ctx, url.Values{"account": {s.config.Account}, "idempotencyKey": {key}})
	if err != nil {
		return "", err
	}
	if len(ledger) == 0 {
		return "nothing to send: the PSP has not charged this key", nil
	}
	known, err := s.delivered(ctx)
	if err != nil {
		return "", err
	}
	var answers []string
	for _, charge := range ledger {
		raw, err := s.askPSP(ctx, http.MethodPost, "/_webhooks/"+url.PathEscape(charge.ID), "")
		if err != nil {
			return "", err
		}
		var sent struct {
			Status int `json:"status"`
			Tries  []struct {
				EntryID string `json:"entryId"`
			} `json:"tries"`
		}
		if err := json.Unmarshal(raw, &sent); err != nil {
			return "", fmt.Errorf("read the PSP's answer: %w", err)
		}
		seen := len(sent.Tries) > 0 && known[sent.Tries[0].EntryID]
		answers = append(answers, charge.ID+": "+webhookAnswer(sent.Status, seen))
	}
	return strings.Join(answers, "; "), nil
}

// webhookAnswer says what Payonce's answer to a webhook means. known says that it has taken the same webhook before.
func webhookAnswer(status int, known bool) string {
	switch {
	case status == 0:
		return "no answer"
	case status/100 != 2: //nolint:mnd // the class of success
		return fmt.Sprintf("Payonce answered %d, so it has not stored the webhook", status)
	case known:
		return fmt.Sprintf("Payonce answered %d: it has seen this webhook before, and has changed nothing", status)
	}
	return fmt.Sprintf("Payonce answered %d: it has stored this webhook, and the reconciler compares it with the payment",
		status)
}

// charge is a charge in the mock PSP's ledger.
type charge struct {
	ID             string    `json:"id"`
	Status         string    `json:"status"`
	IdempotencyKey string    `json:"idempotencyKey"`
	Reference      string    `json:"reference"`
	CreatedAt      time.Time `json:"createdAt"`
}

func (c charge) moved() bool { return c.Status == "succeeded" }

// ledgerOf reads the charges that a query asks for.
func (s *Controls) ledgerOf(ctx context.Context, query url.Values) ([]charge, error) {
	ledger, err := readPSP[struct {
		Charges []charge `json:"charges"`
	}](ctx, s, "/_ledger?"+query.Encode())
	return ledger.Charges, err
}

// calls are requests to the mock PSP under a key. Posts counts those that could move money.
type calls struct {
	Posts    int    `json:"posts"`
	Requests []call `json:"requests"`
}

type call struct {
	Method  string    `json:"method"`
	Key     string    `json:"key"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"`
}

// callsOf reads the requests of an account under a key; of all keys if it is empty.
func (s *Controls) callsOf(ctx context.Context, account, key string) (calls, error) {
	query := url.Values{"account": {account}, "idempotencyKey": {key}}
	return readPSP[calls](ctx, s, "/_requests?"+query.Encode())
}

// readPSP reads what one of the mock PSP's control endpoints shows.
func readPSP[T any](ctx context.Context, s *Controls, path string) (shown T, err error) {
	raw, err := s.askPSP(ctx, http.MethodGet, path, "")
	if err == nil {
		err = json.Unmarshal(raw, &shown)
	}
	return shown, err
}

// webhookTry is a try of the mock PSP to send a webhook. EntryID names what it tells of: a charge, or an event of
// another dialect.
type webhookTry struct {
	EntryID string    `json:"entryId"`
	At      time.Time `json:"at"`
	Status  int       `json:"status"`
}

type webhookTries struct {
	Tries []webhookTry `json:"tries"`
}

// webhookTries reads the latest of them.
func (s *Controls) webhookTries(ctx context.Context) ([]webhookTry, error) {
	sent, err := readPSP[struct {
		webhookTries

		Dialect webhookTries `json:"dialect"`
	}](ctx, s, "/_webhooks")
	return append(sent.Tries, sent.Dialect.Tries...), err
}

// delivered are the entries whose webhook Payonce has taken, of those that the mock PSP remembers.
func (s *Controls) delivered(ctx context.Context) (map[string]bool, error) {
	tries, err := s.webhookTries(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, t := range tries {
		known[t.EntryID] = known[t.EntryID] || t.Status/100 == 2 //nolint:mnd // the class of success
	}
	return known, nil
}

// askPSP asks one of the mock PSP's control endpoints.
func (s *Controls) askPSP(ctx context.Context, method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
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
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxBooks))
	if err != nil {
		return nil, fmt.Errorf("ask the mock PSP: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the mock PSP answered %d", res.StatusCode)
	}
	return raw, nil
}
