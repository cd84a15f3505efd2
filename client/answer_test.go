package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnswerOutsideOfTheTableSaysNothing(t *testing.T) {
	t.Parallel()
	for _, a := range []struct {
		status int
		code   string
	}{{0, ""}, {200, ""}, {204, ""}, {301, ""}, {400, ""}, {402, ""}, {404, ""}, {409, ""}, {422, ""},
		{500, ""}, {502, ""},
		{402, "invalid_request"}, {201, "payment_declined"}, {410, "no_such_code"}, {0, "payment_declined"}} {
		if row := decide(a.status, a.code); row.Meaning != Foreign || row.Untouched {
			t.Errorf("%d %q means %+v", a.status, a.code, row)
		}
	}
}

func TestCallersCannotChangeTheTable(t *testing.T) {
	t.Parallel()
	rows := Table()
	rows[0].Meaning = Refused
	if Table()[0].Meaning != Paid {
		t.Error("a caller changed the table")
	}
	for i, row := range rows {
		if i > 0 && decide(row.Status, row.Code) != row {
			t.Errorf("%+v is not the row that decide finds", row)
		}
	}
}

// A real server and a real transport, for what they do by themselves: repeat requests, follow redirects.
func TestTransportNeitherRepeatsNorFollows(t *testing.T) {
	t.Parallel()
	var seen, elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch seen.Add(1) {
		case 1: // a connection that stays open, for the next request
			w.WriteHeader(http.StatusBadGateway)
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			http.Redirect(w, r, other.URL+"/payments", http.StatusPermanentRedirect)
		default:
			w.Header().Set("Idempotency-Key", r.Header.Get("Idempotency-Key"))
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w,
				strings.Replace(string(body), "{", `{"paymentId":"pay_1","status":"succeeded",`, 1))
		}
	}))
	t.Cleanup(server.Close)
	journal := openJournal(t, filepath.Join(t.TempDir(), "journal"))
	attempts := 0
	c, err := New(Config{BaseURL: server.URL, APIKey: "secret", Store: journal, HTTPClient: server.Client(),
		Jitter: func(time.Duration) time.Duration { attempts++; return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	result, err := c.Pay(t.Context(), order)
	if err != nil || !result.Paid || seen.Load() != 4 || attempts != 3 || elsewhere.Load() != 0 {
		t.Errorf("%+v, %v: the server saw %d requests, the client waited %d times; %d redirected", result, err,
			seen.Load(), attempts, elsewhere.Load())
	}
}

func TestSilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	c, err := New(Config{BaseURL: server.URL, APIKey: "secret", HTTPClient: server.Client(),
		Store: openJournal(t, filepath.Join(t.TempDir(), "journal")), AttemptTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	heard := c.send(t.Context(), record("one"))
	if heard.row.Meaning != Foreign || !errors.Is(heard.err, context.DeadlineExceeded) {
		t.Errorf("heard %+v", heard)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := Config{BaseURL: "https://pay.test/v1/", APIKey: "k", Store: &Journal{}}
	if c, err := New(good); err != nil || c.url != "https://pay.test/v1/payments" {
		t.Errorf("%v", err)
	}
	for name, change := range map[string]func(*Config){
		"no URL":        func(c *Config) { c.BaseURL = "" },
		"no host":       func(c *Config) { c.BaseURL = "https:///x" },
		"another kind":  func(c *Config) { c.BaseURL = "ftp://pay.test" },
		"user":          func(c *Config) { c.BaseURL = "https://me:pw@pay.test" },
		"query":         func(c *Config) { c.BaseURL = "https://pay.test?x=1" },
		"fragment":      func(c *Config) { c.BaseURL = "https://pay.test#x" },
		"no API key":    func(c *Config) { c.APIKey = "" },
		"no store":      func(c *Config) { c.Store = nil },
		"negative time": func(c *Config) { c.KeyLife = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestErrorsKeepKeysAndSecretsOut(t *testing.T) {
	t.Parallel()
	b := setup(t, reply{status: reset})
	_, err := b.client.Pay(patiently(t, time.Second), order)
	if err == nil || strings.Contains(err.Error(), b.seen[0].key) || strings.Contains(err.Error(), "secret") ||
		!strings.Contains(err.Error(), order.ID) {
		t.Errorf("%v", err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(201, "application/json", `{"paymentId":"pay_1","status":"succeeded","customerId":"cus-1","amountCents":12000,"currency":"USD"}`)
	f.Add(402, "application/problem+json", `{"status":402,"code":"payment_declined"}`)
	f.Add(422, "application/problem+json; charset=utf-8", `{"code":"idempotency_key_reused_with_different_payload"}`)
	f.Add(400, "text/plain", "Bad Request")
	f.Fuzz(func(t *testing.T, status int, kind, body string) {
		stored := record("one")
		header := http.Header{"Content-Type": {kind}, "Idempotency-Key": {stored.Key}}
		heard := understand(stored, status, header, []byte(body))
		switch heard.row.Meaning {
		case Paid:
			stored.Status, stored.Answer = status, heard.body
			if result, err := resultOf(stored); err != nil || !result.Paid || result.PaymentID == "" || status != 201 {
				t.Errorf("%d %s is paid: %+v, %v", status, body, result, err)
			}
		case Declined:
			if status != 402 || !strings.Contains(kind, "problem+json") {
				t.Errorf("%d %s %s is a decline", status, kind, body)
			}
		case Again, Ask, Refused, Stuck, Foreign:
		}
		header.Set("Idempotency-Key", "another")
		if m := understand(stored, status, header, []byte(body)).row.Meaning; m == Paid || m == Declined {
			t.Errorf("an answer about another key ended the intent")
		}
	})
}
