package shop

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"payonce/client"
	"payonce/internal/look"
)

// Config is what a Shop needs.
type Config struct {
	API    string       // the address of Payonce
	APIKey string       // with payments:write
	Own    string       // the address of the shop
	DB     *sql.DB      // of the shop alone
	Store  client.Store // of the payments that it has begun
	Lost   string       // the payment method whose answer is lost
	Log    *slog.Logger
	Now    func() time.Time
}

// tables are those of the orders, and what the page shows of events. client.ConsumerTables are the others.
const tables = client.ConsumerTables + `
CREATE TABLE IF NOT EXISTS orders (
    id             text PRIMARY KEY,
    placed_at      timestamptz NOT NULL DEFAULT now(),
    amount_cents   bigint NOT NULL,
    payment_method text NOT NULL,
    answer         text NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS order_events (
    event_id   text PRIMARY KEY,
    order_id   text NOT NULL REFERENCES orders,
    type       text NOT NULL,
    version    bigint NOT NULL,
    deliveries integer NOT NULL,
    taken      integer NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS order_events_of ON order_events (order_id);
CREATE INDEX IF NOT EXISTS told_payments_of ON told_payments (reference);`

const (
	patience       = 2 * time.Second // of a payment; a customer who waits for longer goes away
	requestLimit   = 10 * time.Second
	maxBody        = 1 << 20
	maxBuying      = 8
	deliveriesPath = "/shop/events"
)

// Shop is the handler of all paths below /shop.
type Shop struct {
	config  Config
	client  *client.Client
	handler http.Handler
	page    *template.Template
	secret  atomic.Pointer[string] // of the endpoint; nil until there is one
	refused atomic.Pointer[string] // why the last try to make one has failed; nil before there was such a try

	buying chan struct{} // a place for each payment under way
	ctx    context.Context
	end    context.CancelFunc
	active sync.WaitGroup
}

//go:embed page.html
var pageSource string

// New makes the shop and its tables.
func New(ctx context.Context, c Config) (*Shop, error) {
	if _, err := c.DB.ExecContext(ctx, tables); err != nil {
		return nil, fmt.Errorf("make the shop's tables: %w", err)
	}
	pays, err := client.New(client.Config{BaseURL: c.API, APIKey: c.APIKey, Store: c.Store, Patience: patience,
		Now: c.Now})
	if err != nil {
		return nil, err
	}
	s := &Shop{config: c, client: pays, buying: make(chan struct{}, maxBuying),
		page: template.Must(template.New("page").Parse(pageSource))}
	s.ctx, s.end = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /shop", s.getPage)
	mux.HandleFunc("GET /shop/style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write([]byte(look.Style())) // a browser that has gone needs no style
	})
	mux.HandleFunc("POST /shop/buy", s.postBuy)
	mux.HandleFunc("POST "+deliveriesPath, s.postEvent)
	s.handler = s.guarded(http.NewCrossOriginProtection().Handler(mux))
	return s, nil
}

// Open has events sent here, and goes on with the payments that an earlier shop has begun. Payonce serves by now. It
// returns when Payonce has the endpoint, or has not taken it at once: then Open has it tried again.
func (s *Shop) Open() {
	if !s.hasEndpoint() {
		s.active.Go(s.awaitEndpoint)
	}
	s.active.Go(func() {
		if err := s.client.Resume(s.ctx, s.answered); err != nil && s.ctx.Err() == nil {
			s.config.Log.WarnContext(s.ctx, "the shop cannot go on with its payments", slog.Any("error", err))
		}
	})
}

// Close ends the requests under way.
func (s *Shop) Close() {
	s.end()
	s.active.Wait()
}

// ServeHTTP implements [http.Handler].
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

const policy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; " +
	"base-uri 'none'"

// guarded refuses hosts that are not loopback. A page from elsewhere may have its own name lead to this machine; for
// the browser, it would then be of the same origin.
func (s *Shop) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = r.Host
		}
		name = strings.Trim(name, "[]")
		if !strings.EqualFold(name, "localhost") && !net.ParseIP(name).IsLoopback() {
			http.Error(w, "this page is at "+s.config.Own+"/shop", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if r.Method == http.MethodPost {
			// The listener's server has no limit for a whole request, because of the streams of other pages.
			_ = http.NewResponseController(w).SetReadDeadline(s.config.Now().Add(requestLimit))
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestLimit)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// broken answers a request that the shop cannot carry out. The sender of an event sends it again.
func (s *Shop) broken(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, context.Canceled) {
		s.config.Log.WarnContext(r.Context(), "the shop's database does not answer", slog.Any("error", err))
	}
	w.Header().Set("Refresh", "1")
	http.Error(w, "The shop's database does not answer. This page is loaded again in a second.",
		http.StatusServiceUnavailable)
}
