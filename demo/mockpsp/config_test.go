package mockpsp

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestDemoWebhookSecretIsWellKnown(t *testing.T) {
	t.Parallel()
	want := "whsec_" + base64.StdEncoding.EncodeToString([]byte("demo-webhook-secret-for-payonce!!"))
	if DemoWebhookSecret != want {
		t.Errorf("got %s, want %s", DemoWebhookSecret, want)
	}
}

func TestBadWebhookConfigIsRefusedWithoutQuotingASecret(t *testing.T) {
	t.Parallel()
	encoded := func(bytes int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, bytes)) }
	for name, change := range map[string]func(*Config){
		"relative URL":    func(c *Config) { c.WebhookURL = "/secret" },
		"other scheme":    func(c *Config) { c.WebhookURL = "ftp://secret@127.0.0.1/" },
		"no host":         func(c *Config) { c.WebhookURL = "http:///secret" },
		"no URL":          func(c *Config) { c.WebhookURL = "http://user:secret@127.0.0.1:port/" },
		"no prefix":       func(c *Config) { c.WebhookSecret = strings.TrimPrefix(DemoWebhookSecret, "whsec_") },
		"not base64":      func(c *Config) { c.WebhookSecret = "whsec_!secret" },
		"short secret":    func(c *Config) { c.WebhookSecret = encoded(23) },
		"long secret":     func(c *Config) { c.WebhookSecret = encoded(65) },
		"negative delay":  func(c *Config) { c.WebhookDelay = -1 },
		"negative extra":  func(c *Config) { c.WebhookExtraDelay = -1 },
		"no timeout":      func(c *Config) { c.WebhookTimeout = 0 },
		"negative gap":    func(c *Config) { c.WebhookSchedule = []time.Duration{1, -1} },
		"endless gap":     func(c *Config) { c.WebhookSchedule = []time.Duration{maxWebhookGap + 1} },
		"endless retries": func(c *Config) { c.WebhookSchedule = make([]time.Duration, maxWebhookGaps+1) },
	} {
		config := DefaultConfig()
		config.WebhookURL = "http://127.0.0.1:1/"
		if err := config.Check(); err != nil {
			t.Fatal(err)
		}
		change(&config)
		err := config.Check()
		if err == nil || strings.Contains(err.Error(), ":secret") || strings.Contains(err.Error(), "!secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPasswordInTheWebhookURLIsShownNowhere(t *testing.T) {
	t.Parallel()
	p := setup(t, func(c *Config) {
		c.WebhookURL = "http://user:hush-hush@127.0.0.1:1/" // nobody listens there
		c.WebhookDelay, c.WebhookSchedule = 0, nil
	})
	p.charge("key-1", "pm_ok").want(t, http.StatusCreated, "")
	if view := p.awaitWebhooks(0, 0, 1, 0); strings.Contains(view.Tries[0].Error, "//") {
		t.Errorf("the error repeats the URL: %s", view.Tries[0].Error)
	}
	if shown := p.get("/_webhooks").body + p.get("/").body; strings.Contains(shown, "hush-hush") ||
		!strings.Contains(shown, "refused") {
		t.Errorf("shown: %s", shown)
	}
}
