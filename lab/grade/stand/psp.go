package stand

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp"
	"payonce/lab/invariants"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// The times of the mock PSP.
const (
	slowDelay = 300 * time.Millisecond
	hangLimit = 6 * time.Second
	// LateDelay is when a late charge lands, after its request.
	LateDelay    = time.Second
	webhookDelay = 50 * time.Millisecond
	extraDelay   = 500 * time.Millisecond
	webhookLimit = 2 * time.Second
	webhookTries = 40
	webhookGap   = 500 * time.Millisecond
)

const pspSecret = "demo-psp-secret" // Payonce takes the demo's public webhook secret beside it only

// provider is the mock PSP, and the proxies on both sides of it. With a server at a URL there are none: that server has
// its own mock PSP.
type provider struct {
	url   string // where it is asked about its ledger
	front *httpproxy.Proxy
	hooks *httpproxy.Proxy

	mock *mockpsp.Server
	http *http.Server
}

// Charge is the name of a charge at the proxy.
const Charge = "charge"

func openProvider(seed uint64, webhooks string, next func() string, arrived func(httpproxy.Call)) (_ *provider,
	err error) {
	p := &provider{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	config := mockpsp.DefaultConfig()
	config.Secret, config.Rand = pspSecret, rand.New(rand.NewPCG(seed, 0))
	config.Log = slog.New(slog.DiscardHandler)
	config.SlowDelay, config.HangLimit, config.LateDelay = slowDelay, hangLimit, LateDelay
	config.WebhookDelay, config.WebhookExtraDelay = webhookDelay, extraDelay
	config.WebhookTimeout = webhookLimit
	config.WebhookSchedule = nil
	for range webhookTries {
		config.WebhookSchedule = append(config.WebhookSchedule, webhookGap)
	}
	if webhooks != "" {
		p.hooks, err = httpproxy.Open(httpproxy.Options{Upstream: next,
			Name: func(*http.Request) string { return "webhook" }})
		if err != nil {
			return nil, err
		}
		config.WebhookURL = p.hooks.URL() + webhooks
	}
	if p.mock, err = mockpsp.New(config); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the mock PSP: %w", err)
	}
	p.http = &http.Server{Handler: p.mock, ReadHeaderTimeout: hangLimit}
	go func() { _ = p.http.Serve(l) }()
	p.url = "http://" + l.Addr().String()
	p.front, err = httpproxy.Open(httpproxy.Options{
		Upstream: func() string { return l.Addr().String() }, Name: nameOfCall, Arrived: arrived,
	})
	return p, err
}

func nameOfCall(r *http.Request) string {
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/charges"):
		return Charge
	case strings.HasPrefix(r.URL.Path, "/v1/charges") && r.URL.RawQuery != "":
		return "lookup"
	}
	return ""
}

func (p *provider) close() {
	if p.front != nil {
		p.front.Close()
	}
	if p.hooks != nil {
		p.hooks.Close()
	}
	if p.mock != nil {
		_ = p.mock.Close()
	}
	if p.http != nil {
		_ = p.http.Close()
	}
}

const askLimit = 10 * time.Second

// ledger is everything that was really charged, given back and disputed, oldest first.
func (p *provider) ledger(ctx context.Context) (*invariants.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	all, err := invariants.ReadLedger(ctx, http.DefaultClient, p.url)
	if err != nil {
		return nil, fmt.Errorf("%w (is it a mock PSP that answers at %s?)", err, p.url)
	}
	return all, nil
}

func (p *provider) act(ctx context.Context, door, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+door, strings.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("make request: %w", err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", fmt.Errorf("ask the PSP: %w", err)
	}
	defer response.Body.Close()
	var made struct {
		ID string `json:"id"`
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the PSP answers %s with %d", door, response.StatusCode)
	}
	err = json.UnmarshalRead(response.Body, &made)
	return made.ID, err
}

// disorder sets how webhooks go wrong.
func (p *provider) disorder(ctx context.Context, rates map[string]float64) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return world.SetFaults(ctx, strings.TrimPrefix(p.url, "http://"), map[string]any{"webhooks": rates})
}
