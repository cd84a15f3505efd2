package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"time"

	"payonce/demo/controls"
	"payonce/demo/shop"
	"payonce/internal/app"
	"payonce/internal/httpapi"
)

// listeners are open from the start. A client that connects before the demo is ready, or while a child is away, waits
// for its answer.
type listeners struct {
	operator, psp net.Listener // served by this process
	stripe        net.Listener // likewise; nil unless the tenants are at Stripe

	// Handed down to the children, each time they start. api is where this process reaches the operator's side of the
	// API's child.
	public, api, reconciler *os.File
	apiAddr                 string
}

// listen opens all addresses, or says of all of them at once what is wrong.
func listen(ctx context.Context, set settings) (*listeners, error) {
	addresses := []app.Address{
		{Setting: "HTTP_ADDR", Addr: set.api.HTTPAddr},
		{Setting: "OPERATOR_ADDR", Addr: set.api.OperatorAddr},
		{Setting: "MOCKPSP_ADDR", Addr: set.own.MockPSPAddr},
		{Setting: "RECONCILER_ADDR", Addr: set.reconciler.Addr},
	}
	if set.stripe() {
		addresses = append(addresses, app.Address{Setting: "MOCKPSP_STRIPE_ADDR", Addr: set.own.StripeAddr})
	}
	opened, err := app.Listen(ctx, addresses...)
	if _, taken := errors.AsType[app.TakenError](err); taken {
		return nil, fmt.Errorf("%w\nif another demo is running, stop it, or set DEMO_DATA_DIR as well", err)
	}
	if err != nil {
		return nil, err
	}
	l := &listeners{operator: opened[1], psp: opened[2]}
	if set.stripe() {
		l.stripe = opened[4]
	}
	hidden, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		err = fmt.Errorf("listen for the API's operator side: %w", err)
	} else {
		l.apiAddr = hidden.Addr().String()
		l.api, err = handedDown(hidden)
	}
	var publicErr, reconcilerErr error
	l.public, publicErr = handedDown(opened[0])
	l.reconciler, reconcilerErr = handedDown(opened[3])
	if err := errors.Join(err, publicErr, reconcilerErr); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// spoken is the listener at which the tenants' provider is spoken to.
func (l *listeners) spoken() net.Listener {
	if l.stripe != nil {
		return l.stripe
	}
	return l.psp
}

// handedDown makes a file of a listener, for children to inherit. The address stays taken while the file is open.
func handedDown(l net.Listener) (*os.File, error) {
	defer l.Close()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("hand %s down: not a TCP listener", l.Addr())
	}
	file, err := tcp.File()
	if err != nil {
		return nil, fmt.Errorf("hand %s down: %w", l.Addr(), err)
	}
	return file, nil
}

func (l *listeners) close() {
	_ = l.operator.Close()
	_ = l.psp.Close()
	if l.stripe != nil {
		_ = l.stripe.Close()
	}
	for _, file := range []*os.File{l.public, l.api, l.reconciler} {
		_ = file.Close() // also of one that was not opened
	}
}

// operatorSide serves the operator's listener: the page with the buttons and the shop, which must answer while the API
// is away, and everything else by the API's child.
type operatorSide struct {
	api      http.Handler
	controls *controls.Controls // nil where the listener is not on loopback
	shop     *shop.Shop         // likewise
	idle     time.Duration
	log      *slog.Logger
}

func newOperatorSide(p parts) *operatorSide {
	return &operatorSide{
		api:      newProxy(p.at.apiAddr, func() bool { return p.children.api.State().Serves }, p.log),
		controls: p.controls, shop: p.shop, idle: p.set.api.HTTPIdle, log: p.log,
	}
}

// ServeHTTP does not use a mux for the choice: a mux redirects paths that are not clean, and the API refuses them.
func (o *operatorSide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if o.controls != nil && (r.URL.Path == "/demo" || strings.HasPrefix(r.URL.Path, "/demo/")) {
		o.controls.ServeHTTP(w, r)
		return
	}
	if o.shop != nil && (r.URL.Path == "/shop" || strings.HasPrefix(r.URL.Path, "/shop/")) {
		o.shop.ServeHTTP(w, r)
		return
	}
	o.api.ServeHTTP(w, r)
}

// serve serves until ctx ends, and then ends what still runs: by then, the children have stopped.
func (o *operatorSide) serve(ctx context.Context, l net.Listener) error {
	server := httpapi.NewServer(o, o.idle, o.log)
	// Streams last for as long as their page is open. What is not a stream is bounded by the child, which has the
	// limits of the contract.
	server.ReadTimeout, server.WriteTimeout = 0, 0
	l = httpapi.LimitConnections(l, server, httpapi.MaxOperatorConnections, o.log, time.Now)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve OPERATOR_ADDR: %w", err)
	}
	return nil
}

// newProxy passes requests on as they came, while the API serves.
func newProxy(addr string, serves func() bool, log *slog.Logger) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", addr
			r.Out.URL.RawQuery = r.In.URL.RawQuery // also one that cannot be parsed: to refuse it is the child's part
		},
		// A connection that is kept may be one to a child that was killed, and a POST is not sent twice.
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval: -1, // events are passed on as they come
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler:  func(w http.ResponseWriter, r *http.Request, _ error) { apiIsAway(w, r) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !serves() {
			apiIsAway(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

const awayPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="1"><title>The API is away</title></head>
<body><h1>The API is away</h1><p>It is started again by itself. This page is loaded again every second.</p></body></html>
`

const awayProblem = `{"type":"about:blank","title":"The API is away","status":502,` +
	`"detail":"The demo starts it again by itself. Ask again in a second."}` + "\n"

// apiIsAway answers for a child that does not run, or has ended before it had answered.
func apiIsAway(w http.ResponseWriter, r *http.Request) {
	kind, body := "application/problem+json", awayProblem
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		kind, body = "text/html; charset=utf-8", awayPage
	}
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("Cache-Control", "no-store")
	header.Set("Retry-After", "1")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write([]byte(body))
}
