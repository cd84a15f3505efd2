package controls

import (
	"context"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"payonce/demo/mockpsp"
	"payonce/demo/windows"
	"payonce/internal/look"
	"payonce/internal/sequence"
)

// Config is what the page needs to know of the demo.
type Config struct {
	Port string // of the listener that serves the page

	PublicURL string // where payments are sent
	Tenant    string // who pays, and
	APIKey    string // the tenant's API key
	Account   string // the tenant's account at the PSP
	PSPURL    string // where this process reaches the mock PSP, and
	PSPPage   string // where a browser does
	Tokens    []mockpsp.Token
	// ChargeKeys are the keys of the requests that could charge under a client's key. More of them than are returned do
	// not matter: two requests are several.
	ChargeKeys func(key string) []string
	// Provider names the provider whose dialect the mock PSP speaks; or "" if it speaks its own.
	Provider string

	OperatorURL string // where this process reaches the operator's side of the API
	OperatorKey string // signs in there
	// PSPTimeout is how long the API waits for the PSP.
	PSPTimeout time.Duration
	// Late is how long after a lost answer the PSP may still charge.
	Late time.Duration
	// Naive is the server that Payonce is compared with; or nil.
	Naive        *Naive
	WithoutNaive string // why there is none
	// MaxPause is how long the API may be stopped before it sends.
	MaxPause time.Duration
	// Row reads the newest payment's row. Nil: the page does not know it.
	Row        func(ctx context.Context, key string) (Row, error)
	StartToken string // of the link that signs in
	Notice     string // for the top of the page; or ""

	API, Reconciler, Database Control

	Windows *windows.Stage // nil: nothing can be stopped here, and the page does not offer it

	Log *slog.Logger
	Now func() time.Time
}

// Control is a process of the demo, and how to kill it.
type Control struct {
	State func() Process
	Kill  func() error // of the database: nil if it is not the demo's own, and then the page has no button
}

const (
	maxForm = 8 << 10
	// requestLimit bounds a request with a form, the sign-in, and a request to the mock PSP.
	requestLimit = 10 * time.Second
)

// Controls is the handler of all paths below /demo.
type Controls struct {
	config  Config
	handler http.Handler
	page    *template.Template
	client  *http.Client
	told    *told
	seen    observer // of the newest payment
	stopped observer // of the one that was held last

	comparing comparing

	sending chan struct{} // a place for each request under way
	ctx     context.Context
	end     context.CancelFunc
	active  sync.WaitGroup

	starting  sync.Mutex
	startUsed bool
}

// New makes the handler.
func New(c Config) *Controls {
	s := &Controls{
		config: c, page: parsePage(), told: &told{now: c.Now},
		// Each request has a connection of its own: one that is kept may be one to a process that was killed.
		client: &http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		sending: make(chan struct{}, maxSending),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.handler = s.guarded(http.NewCrossOriginProtection().Handler(s.routes()))
	return s
}

// Close ends the requests under way, and the streams of events.
func (s *Controls) Close() {
	s.end()
	s.active.Wait()
}

// ServeHTTP implements [http.Handler].
func (s *Controls) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Controls) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /demo", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/demo/", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /demo/{$}", s.getPage)
	mux.HandleFunc("GET /demo/live", s.getLive)
	mux.HandleFunc("GET /demo/start", s.getStart)
	mux.HandleFunc("POST /demo/send", s.postSend)
	if s.config.Naive != nil {
		mux.HandleFunc("POST /demo/compare", s.postCompare)
		mux.HandleFunc("GET /demo/compared.svg", s.getCompared)
	}
	mux.HandleFunc("POST /demo/faults", s.postFaults)
	mux.HandleFunc("POST /demo/others", s.postOthers)
	mux.HandleFunc("POST /demo/resend-webhook", s.postResendWebhook)
	mux.HandleFunc("POST /demo/kill-api", s.kill("kill -9 the API", s.config.API))
	mux.HandleFunc("POST /demo/kill-reconciler", s.kill("kill -9 the reconciler", s.config.Reconciler))
	if s.config.Database.Kill != nil {
		mux.HandleFunc("POST /demo/crash-database", s.kill("crash the database", s.config.Database))
	}
	if s.config.Windows != nil {
		mux.HandleFunc("POST /demo/stop", s.postStop)
		mux.HandleFunc("POST /demo/held", s.postHeld)
	}
	mux.HandleFunc("GET /demo/assets/style.css", asset("text/css", look.Style()+sequence.Style))
	mux.HandleFunc("GET /demo/assets/live.js", asset("text/javascript", look.Script()))
	mux.HandleFunc("GET /demo/assets/demo.js", asset("text/javascript", script))
	return mux
}

func asset(contentType, content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType+"; charset=utf-8")
		_, _ = w.Write([]byte(content)) // a browser that has gone needs no style
	}
}

// policy allows nothing but what this listener serves.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guarded refuses hosts that are not loopback. A page from elsewhere may have its own name lead to this machine; for
// the browser, it would then be of the same origin.
func (s *Controls) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !s.ownHost(r.Host) {
			http.Error(w, "this page is at localhost, port "+s.config.Port, http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if r.Method == http.MethodPost {
			// The listener's server has no limit for a whole request, because of the streams.
			_ = http.NewResponseController(w).SetReadDeadline(s.config.Now().Add(requestLimit))
		}
		// Otherwise a form that cannot be read would count as one without fields.
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Controls) ownHost(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "80"
	}
	return port == s.config.Port && (strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback())
}

// kill is the handler that kills a process.
func (s *Controls) kill(what string, c Control) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := "done; it comes back by itself"
		if err := c.Kill(); err != nil {
			answer = "not done: " + err.Error()
		}
		s.told.note(what, answer)
		s.back(w, r, r.PostFormValue("key"), atGuide)
	}
}

// Process is what the page shows of a process.
type Process struct {
	PID      int
	Serves   bool
	Since    time.Time // since when it serves, or has not served
	Restarts int
}
