// Package pages serves what people read without an API key: the start page, the reader of the OpenAPI document, the
// pages behind the type URLs of problem documents, and the OpenAPI document itself.
//
// It owns the HTML, the vendored reader (Swagger UI) and their security headers. It refuses to know payments, keys or
// the database: everything it shows is fixed when the server starts, so it answers also when nothing else does. How the
// pages look is package look's.
//
// Invariants: no page loads anything from another origin; scripts run on /docs only, and only from this server.
package pages

import (
	"cmp"
	"embed"
	"net/http"
	"path"
	"slices"
	"strings"

	"payonce/internal/look"
	"payonce/internal/problem"
)

//go:embed templates assets swaggerui
var files embed.FS

// swaggerVersion is the release that swaggerui/ holds. The URLs of its files carry it, so browsers may keep them
// forever.
const swaggerVersion = "5.35.0"

const (
	javaScript = "text/javascript; charset=utf-8"
	css        = "text/css; charset=utf-8"
	plain      = "text/plain; charset=utf-8"
)

// Addresses are what the pages lead to and what their curl lines ask. Each is a base without a slash at its end.
type Addresses struct {
	Public   string
	Operator string // the operator's listener, as the machine reaches it on which it listens
	PSP      string // a page of the payment provider's for people, which only the demo has; or empty
}

// Handler serves GET (and HEAD) of /, /docs and below, /problems, /problems/{code} and /openapi.yaml on the public
// listener. openapi is the document as it is for the documented addresses. It panics if an embedded file is broken.
func Handler(at Addresses, openapi func() []byte) http.Handler {
	base := problem.Path(at.Public, "")
	frame := newFrame(base)
	nothing := frame.page("nothing.html", "No such page", http.StatusNotFound, nil)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", frame.page("index.html", "Payonce", http.StatusOK, tryLines(at)))
	mux.Handle("GET /", nothing)
	mux.Handle("GET /problems", frame.page("problems.html", "Problems", http.StatusOK, problem.All()))
	mux.Handle("GET /problems/{code}", problemPages(frame, at))
	here := "  - url: " + cmp.Or(base, "/") + "\n    description: The server that shows you this page.\n"
	handleReader(mux, publicReader(at), func() []byte { return at.published(openapi(), here) })
	return clean(mux, nothing)
}

// OperatorHandler serves GET (and HEAD) of /docs and below, and of /openapi.yaml, on the operator's listener, and
// leaves the rest to nothing. Its reader has the operations of that listener: a browser asks none but the server that
// it has the page from.
func OperatorHandler(at Addresses, openapi func() []byte, nothing http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", nothing)
	public := "  - url: " + at.Public + "\n    description: The public API.\n" // not served here
	handleReader(mux, operatorReader(at), func() []byte { return at.published(openapi(), public) })
	return clean(mux, nothing)
}

// handleReader adds the reader with its files, and the document that it reads.
func handleReader(mux *http.ServeMux, reader http.Handler, openapi func() []byte) {
	mux.Handle("GET /openapi.yaml", document("application/yaml", revalidate, openapi))
	mux.Handle("GET /docs", reader)
	mux.Handle("GET /docs/docs.js", document(javaScript, revalidate, embedded("assets/docs.js")))
	style := embedded("assets/docs.css")
	mux.Handle("GET /docs/docs.css", document(css, revalidate, func() []byte {
		return slices.Concat([]byte(look.Base()), style())
	}))
	for name, contentType := range map[string]string{
		"swagger-ui-bundle.js": javaScript, "swagger-ui.css": css,
		"swagger-ui-bundle.js.LICENSE.txt": plain, "swagger-ui.LICENSE.txt": plain, "swagger-ui.NOTICE.txt": plain,
	} {
		mux.Handle("GET /docs/"+name, document(contentType, keep, embedded("swaggerui/"+name)))
	}
}

// clean answers with nothing where the mux would redirect /docs/../payments to /payments: no page has a second address.
func clean(mux *http.ServeMux, nothing http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path.Clean(r.URL.Path) {
			nothing.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// problemPages renders one page per code beforehand.
func problemPages(frame frame, at Addresses) http.Handler {
	unknown := frame.page("unknown.html", "No such problem", http.StatusNotFound, problem.All())
	known := map[string]http.Handler{}
	for _, entry := range problem.All() {
		if at.PSP == "" && (strings.Contains(entry.Curl, "$PSP") || strings.Contains(entry.Curl, "pm_")) {
			entry.Curl, entry.Unseen = "", "It takes a provider that fails on demand: the demo has one."
		}
		entry.Curl = shown(entry.Curl, at)
		known[string(entry.Code)] = frame.page("problem.html", entry.Title, http.StatusOK, struct {
			problem.Entry

			Demo bool
		}{entry, at.PSP != ""})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, ok := known[r.PathValue("code")]; ok {
			page.ServeHTTP(w, r)
			return
		}
		unknown.ServeHTTP(w, r)
	})
}

// shown is a curl line as the page shows it: with the servers' addresses, and broken where a shell lets it be broken.
func shown(curl string, at Addresses) string {
	return strings.NewReplacer(append(at.keys(), "$BASE", at.Public, "$OPERATOR", at.Operator,
		"$PSP", cmp.Or(at.PSP, "http://localhost:8082"), " -H ", " \\\n  -H ", " -d ", " \\\n  -d ",
		" | sed ", " \\\n  | sed ", "; curl ", ";\ncurl ", "; ID=", ";\nID=", "; for ", ";\nfor ")...).Replace(curl)
}

// try holds the start page's commands, and where else it leads.
type try struct {
	Addresses
	Pay, Lose, Inspect string
}

func tryLines(at Addresses) try {
	const post = `curl -i "$BASE/payments" -H "Authorization: Bearer demo-acme-key" -H "Content-Type: application/json" `
	return try{
		Addresses: at,
		Pay: shown(post+`-H "Idempotency-Key: my-first-payment-1" `+
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD"}'`, at),
		Lose: shown(post+`-H "Idempotency-Key: my-lost-payment-1" `+
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":"pm_timeout_charged"}'`, at),
		Inspect: shown(`curl -i "$BASE/idempotency-keys/my-lost-payment-1" -H "Authorization: Bearer demo-acme-key"`,
			at),
	}
}
