package mockpsp

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// Each harm is in what is answered, looked up and listed. The ledger view and the webhook have the plain record.
func TestHarmfulRecordsAreHardToReadAndWellKnown(t *testing.T) {
	t.Parallel()
	parses := func(body string) bool {
		var members map[string]any
		return json.Unmarshal([]byte(body), &members) == nil
	}
	for f, hurts := range map[fault]func(body string) bool{
		"pm_duplicate_member": func(body string) bool {
			return !parses(body) && strings.Contains(body, `"status":"succeeded"`) &&
				strings.Contains(body, `"status":"declined"`)
		},
		"pm_invalid_utf8":   func(body string) bool { return !parses(body) && !utf8.ValidString(body) },
		"pm_huge_member":    func(body string) bool { return parses(body) && len(body) > 1<<20 },
		"pm_large_metadata": func(body string) bool { return parses(body) && len(body) > 27<<10 && len(body) < 28<<10 },
		"pm_unknown_status": func(body string) bool {
			return parses(body) &&
				strings.Contains(body, `"status":"captured"`)
		},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, receive204)
			p := setup(t, func(c *Config) { c.WebhookURL, c.WebhookDelay = r.server.URL, 0 })
			p.charge("key-0", "pm_ok").want(t, http.StatusCreated, "")
			first := p.charge("key-1", string(f))
			held := p.ledger("key-1").Charges
			if len(held) != 1 || held[0].Fault != f || held[0].Status != "succeeded" {
				t.Fatalf("ledger: %+v", held)
			}
			list := p.get("/v1/charges")
			for name, got := range map[string]result{
				"answer": first, "replay": p.charge("key-1", string(f)), "list": list,
				"lookup": p.get("/v1/charges?idempotencyKey=key-1"),
			} {
				if got.err != nil || got.status/100 != 2 || !hurts(got.body) ||
					!strings.Contains(got.body, held[0].ID) {
					t.Errorf("%s: %d %.300s", name, got.status, got.body)
				}
			}
			if !strings.Contains(list.body, `"idempotencyKey":"key-0"`) ||
				!strings.HasSuffix(list.body, `],"hasMore":false}`) {
				t.Errorf("the list has lost what is beside the record: %.300s", list.body)
			}
			p.charge("key-2", "pm_declined").want(t, http.StatusPaymentRequired, "")
			for range 3 {
				if hook := r.next(); !parses(hook.body) || len(hook.body) > 1000 ||
					strings.Contains(hook.body, "captured") {
					t.Errorf("webhook: %.300s", hook.body)
				}
			}
		})
	}
}
