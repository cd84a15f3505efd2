// Package pages serves what people read without an API key: the start page, the reader of the OpenAPI document, the pages
// behind the type URLs of problem documents, and the OpenAPI document itself.
//
// It owns the HTML, its one stylesheet, the vendored reader (RapiDoc) and their security headers. It refuses to know payments,
// keys or the database: everything it shows is fixed when the server starts, so it answers also when nothing else does.
//
// Invariants: no page loads anything from another origin; scripts run on /docs only, and only from this server.
package pages

import (
	"embed"
	"net/http"
	"path"
	"strings"

	"payonce/internal/problem"
)

//go:embed templates assets rapidoc
var files embed.FS

// rapidocVersion is the release that rapidoc/ holds. The reader's URL carries it, so browsers may keep the file forever.
const rapidocVersion = "9.3.8"

// Handler serves GET (and HEAD) of /, /docs and below, /problems, /problems/{code} and /openapi.yaml. publicURL is the base
// of the addresses in the pages' curl lines; openapi is the document's bytes. It panics if an embedded file is broken.
func Handler(publicURL string, openapi []byte) http.Handler {
	publicURL = strings.TrimRight(publicURL, "/")
	look := newLook()
	nothing := look.page("nothing.html", "Nothing here", http.StatusNotFound, nil)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", look.page("index.html", "Payonce", http.StatusOK, tryLines(publicURL)))
	mux.Handle("GET /", nothing)
	mux.Handle("GET /problems", look.page("problems.html", "Problems", http.StatusOK, problem.All()))
	mux.Handle("GET /problems/{code}", problemPages(look, publicURL))
	mux.Handle("GET /openapi.yaml", document("application/yaml", revalidate, openapi))

	mux.Handle("GET /docs", reader())
	mux.Handle("GET /docs/docs.js", document("text/javascript; charset=utf-8", revalidate, embedded("assets/docs.js")))
	mux.Handle("GET /docs/rapidoc-min.js",
		document("text/javascript; charset=utf-8", keep, embedded("rapidoc/rapidoc-min.js")))
	mux.Handle("GET /docs/rapidoc-min.js.LICENSE.txt",
		document("text/plain; charset=utf-8", keep, embedded("rapidoc/rapidoc-min.js.LICENSE.txt")))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect /docs/../payments to /payments: no page has a second address.
		if r.URL.Path != path.Clean(r.URL.Path) {
			nothing.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// problemPages renders one page per code beforehand.
func problemPages(look look, publicURL string) http.Handler {
	unknown := look.page("unknown.html", "No such problem", http.StatusNotFound, problem.All())
	known := map[string]http.Handler{}
	for _, entry := range problem.All() {
		entry.Curl = shown(entry.Curl, publicURL)
		known[string(entry.Code)] = look.page("problem.html", entry.Title, http.StatusOK, entry)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, ok := known[r.PathValue("code")]; ok {
			page.ServeHTTP(w, r)
			return
		}
		unknown.ServeHTTP(w, r)
	})
}

// shown is a curl line as the page shows it: with the server's address, and broken where a shell lets it be broken.
func shown(curl, publicURL string) string {
	return strings.NewReplacer("$BASE", publicURL, " -H ", " \\\n  -H ", " -d ", " \\\n  -d ", " | sed ", " \\\n  | sed ", "; curl ", ";\ncurl ").Replace(curl)
}

// try holds the start page's commands.
type try struct{ Pay, Lose, Inspect string }

func tryLines(publicURL string) try {
	const post = `curl -i "$BASE/payments" -H "Authorization: Bearer demo-acme-key" -H "Content-Type: application/json" `
	return try{
		Pay: shown(post+`-H "Idempotency-Key: my-first-payment-1" `+
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"KRW"}'`, publicURL),
		Lose: shown(post+`-H "Idempotency-Key: my-lost-payment-1" `+
			`-d '{"customerId":"cus-1","amountCents":12000,"currency":"KRW","paymentMethod":"pm_timeout_charged"}'`, publicURL),
		Inspect: shown(`curl -i "$BASE/idempotency-keys/my-lost-payment-1" -H "Authorization: Bearer demo-acme-key"`, publicURL),
	}
}
