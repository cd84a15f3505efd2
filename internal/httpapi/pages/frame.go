package pages

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"

	"payonce/internal/look"
)

// frame is what all pages but the reader share: the templates, the stylesheet and the policy that allows nothing else.
type frame struct {
	base      string // the path before each path of this server
	templates *template.Template
	style     template.CSS
	policy    string
}

func newFrame(base string) frame {
	return frame{
		base:      base,
		templates: template.Must(template.ParseFS(files, "templates/*.html")),
		style:     template.CSS(look.Style()), //nolint:gosec // our own embedded file
		policy: "default-src 'none'; img-src data:; style-src " + look.StyleSource() +
			"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

// page renders a template once. Nothing on the pages depends on the request.
func (f frame) page(name, heading string, status int, body any) http.Handler {
	var html bytes.Buffer
	err := f.templates.ExecuteTemplate(&html, name, struct {
		Base, Heading string
		Style         template.CSS
		Body          any
	}{f.base, heading, f.style, body})
	if err != nil {
		panic(fmt.Sprintf("render %s: %v", name, err)) // the templates are ours and embedded
	}
	return htmlPage(html.Bytes(), status, f.policy)
}

func htmlPage(html []byte, status int, policy string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", string(revalidate))
		w.WriteHeader(status)
		_, _ = w.Write(html) // a client that has gone needs no page
	})
}
