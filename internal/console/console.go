package console

import (
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/events"
	"payonce/internal/idempotency"
	"payonce/internal/look"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/sequence"
	"payonce/internal/tenants"
	"payonce/internal/tracing"
)

//go:embed templates
var files embed.FS

// Config is what a Console needs.
type Config struct {
	Keys      *idempotency.Keys
	Payments  *payments.Service
	Operators *operator.Service
	Events    *events.Registry
	Directory *tenants.Directory
	Tracer    *tracing.Tracer // nil: off
	Recent    *Recent
	// Secret seals the session cookies. Processes that share it accept each other's sessions.
	Secret      []byte
	GracePeriod time.Duration
	PublicURL   string // of the public pages, which the console links
	DemoPage    string // a page beside the console, which the demo has; or ""
	Notice      string // for the top of every page; or ""
	EventsFile  string // has what has happened to processes, as sequence.ParseEvents reads it; or ""
	Log         *slog.Logger
	Now         func() time.Time
}

// Console serves the pages below /console/.
type Console struct {
	config    Config
	sessions  *sessions
	watch     *watched
	templates *template.Template
	asking    chan struct{} // bounds the questions to the PSP
}

// maxAsking is how many questions to the PSP pages may have in flight. The places of the PSP's client are for payments.
const maxAsking = 2

// New returns the handler of a Console.
func New(c Config) (http.Handler, error) {
	sealing, err := newSessions(c.Secret, c.Now)
	if err != nil {
		return nil, err
	}
	s := &Console{config: c, sessions: sealing, watch: newWatch(c.Operators.Stamps),
		templates: template.Must(template.New("").Funcs(functions(c.Now)).ParseFS(files, "templates/*.html")),
		asking:    make(chan struct{}, maxAsking)}
	c.Recent.OnAdd(s.watch.keys.Wake)
	return s.routes(), nil
}

// route is an address below /console/. Without a permission, it needs no session.
type route struct {
	pattern    string
	permission tenants.Permission
	page       page
	live       bool // a stream
}

func (c *Console) table() []route {
	const keyPath, plainText = "GET /console/keys/{tenant}/{operation}/{key}", "text/plain; charset=utf-8"
	e := endpointPages{c}
	const endpointPath = "GET /console/endpoints/{tenant}/{id}"
	open := func(h http.HandlerFunc) page {
		return func(w http.ResponseWriter, r *http.Request, _ tenants.Principal) { h(w, r) }
	}
	return []route{
		{"GET /console/{$}", tenants.OpsRead, c.overview, false},
		{"GET /console/live", tenants.OpsRead, c.overviewLive, true},
		{"GET /console/payments", tenants.OpsRead, c.payments(), false},
		{"GET /console/payments/{id}", tenants.OpsRead, c.payment, false},
		{"GET /console/keys", tenants.OpsRead, c.keys(), false},
		{keyPath, tenants.OpsRead, c.key, false},
		{keyPath + "/live", tenants.OpsRead, c.keyLive, true},
		{keyPath + "/picture.svg", tenants.OpsRead, c.picture(sequence.SVGType, sequence.Diagram.SVG), false},
		// For a shell, which sends an API key in place of a session.
		{keyPath + "/picture.txt", tenants.OpsRead, c.picture(plainText, sequence.Diagram.Text), false},
		{"GET /console/webhooks", tenants.OpsRead, c.webhooks(), false},
		{"GET /console/endpoints", tenants.OpsRead, e.list(), false},
		{endpointPath, tenants.OpsRead, e.endpoint, false},
		{endpointPath + "/events/{event}", tenants.OpsRead, e.delivery, false},
		{"POST /console/endpoints/{tenant}/{id}/resend", tenants.OpsResolve, e.resend, false},
		{"POST /console/endpoints/{tenant}/{id}/enable", tenants.OpsResolve, e.enable, false},
		{"GET /console/statements", tenants.OpsRead, c.statements(), false},
		{"GET /console/books", tenants.OpsRead, c.books, false},
		{"GET /console/breaks", tenants.OpsRead, c.breaks(), false},
		{"GET /console/search", tenants.OpsRead, c.search, false},
		{"GET /console/dead-letters", tenants.OpsRead, c.deadLetters(), false},
		{"GET /console/dead-letters/{id}", tenants.OpsRead, c.deadLetter, false},
		{"POST /console/dead-letters/plan", tenants.OpsResolve, c.plan, false},
		{"POST /console/dead-letters/run", tenants.OpsResolve, c.run, false},
		{"POST /console/dead-letters/{id}/resolve", tenants.OpsResolve, c.resolve, false},
		{"GET /console/sign-in", "", open(c.signInForm), false},
		{"POST /console/sign-in", "", open(c.signIn), false},
		{"POST /console/sign-out", "", open(c.signOut), false},
		{"GET /console/assets/{name}", "", open(c.asset), false},
	}
}

// Routes lists the addresses of the console with the permission that each needs, or "" for none.
func Routes() map[string]tenants.Permission {
	routes := map[string]tenants.Permission{}
	for _, r := range (&Console{}).table() {
		routes[r.pattern] = r.permission
	}
	return routes
}

func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range c.table() {
		if r.permission == "" {
			mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
				r.page(w, req, tenants.Principal{})
			})
			continue
		}
		mux.Handle(r.pattern, c.signedIn(r))
	}
	mux.Handle("GET /console", http.RedirectHandler("/console/", http.StatusSeeOther))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, http.StatusNotFound, "There is no such page, or this address does not take "+r.Method+".")
	})
	// The session is a cookie, so another site must not be able to send a request with it.
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, http.StatusForbidden, "This form does not come from a page of the console. Behind a proxy, the proxy "+
			"must pass the header Host on as the browser sent it, or the console must be served by HTTPS.")
	}))
	return secured(guard.Handler(mux))
}

// policy lets a page load styles and scripts from this server, and send forms to it. Nothing is inline, and nothing
// comes from anywhere else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secured sets the headers that every answer has, and bounds what a form may send.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

// maxForm bounds a form. The longest field is a reason of a thousand characters.
const maxForm = 32 << 10

// page serves a request of an operator who has signed in.
type page func(w http.ResponseWriter, r *http.Request, by tenants.Principal)

// signedIn lets a request pass that has a session, or an API key, with the permission. Without either, a request for a
// page is sent to the page where people sign in.
func (c *Console) signedIn(to route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, err := c.operator(r)
		_, program := bearer(r)
		switch {
		case errors.Is(err, errNoSession) && program:
			w.Header().Set("WWW-Authenticate", `Bearer realm="payonce"`)
			c.fail(w, r, http.StatusUnauthorized, "The API key is not one of an operator, or it has ended. "+
				"A key in the header is good for reading only.")
		case errors.Is(err, errNoSession) && to.live:
			c.startStream(w).send("signed-out", message{})
		case errors.Is(err, errNoSession) && r.Method == http.MethodGet:
			http.Redirect(w, r, "/console/sign-in?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		case errors.Is(err, errNoSession):
			c.fail(w, r, http.StatusUnauthorized, "The session has ended. Sign in, and send the form again.")
		case err != nil:
			c.explain(w, r, err)
		case !by.May(to.permission):
			c.fail(w, r, http.StatusForbidden, "This API key does not carry the scope "+string(to.permission)+".")
		default:
			to.page(w, r, by)
		}
	})
}

// view is what every page needs.
type view struct {
	Title     string
	Path      string // of this page
	By        string // who is signed in; "" for nobody
	May       bool   // whether they may change something
	PublicURL string
	DemoPage  string
	Notice    string
	Body      any
}

func (c *Console) show(
	w http.ResponseWriter, r *http.Request, status int, name, title string, by *tenants.Principal, body any,
) {
	v := view{Title: title, Path: r.URL.Path, PublicURL: c.config.PublicURL,
		DemoPage: c.config.DemoPage, Notice: c.config.Notice, Body: body}
	if by != nil {
		v.By, v.May = by.KeyLabel, by.May(tenants.OpsResolve)
		if v.By == "" {
			v.By = by.KeyID.String()
		}
	}
	html, err := c.execute(name, v)
	if err != nil {
		c.config.Log.ErrorContext(r.Context(), "page not rendered", slog.String("page", name), slog.Any("error", err))
		http.Error(w, "Something went wrong on our side.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(html)) // A client that has gone needs no page.
}

// fail shows a page that says what is wrong.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	c.show(w, r, status, "failed.html", http.StatusText(status), nil, text)
}

// explain is fail for an error. An error that is not listed passes by itself.
func (c *Console) explain(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, deadletters.ErrNoDeadLetter): // or the id is not valid
		c.fail(w, r, http.StatusNotFound, "There is no such dead letter.")
		return
	case errors.Is(err, payments.ErrPaymentNotFound):
		c.fail(w, r, http.StatusNotFound, "There is no such payment.")
		return
	case noSuchThing(err) != "":
		c.fail(w, r, http.StatusNotFound, "There is no such "+noSuchThing(err)+".")
		return
	}
	c.config.Log.WarnContext(r.Context(), "console cannot read", slog.Any("error", err))
	if errors.Is(err, operator.ErrTooMuch) {
		c.fail(w, r, http.StatusServiceUnavailable, operator.TooMuch)
		return
	}
	w.Header().Set("Retry-After", "2")
	c.fail(w, r, http.StatusServiceUnavailable, "The database does not answer. Load the page again in some seconds.")
}

// asset serves the style and the script.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	contentType, content := "", ""
	switch r.PathValue("name") {
	case "style.css":
		contentType, content = "text/css", look.Style()+sequence.Style
	case "live.js":
		contentType, content = "text/javascript", look.Script()
	default:
		c.fail(w, r, http.StatusNotFound, "There is no such page.")
		return
	}
	w.Header().Set("Content-Type", contentType+"; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write([]byte(content)) // A client that has gone needs no style.
}
