package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
)

// look is what all pages but the reader share: the templates, the stylesheet and the policy that allows nothing else.
type look struct {
	templates *template.Template
	style     template.CSS
	policy    string
}

func newLook() look {
	style := embedded("assets/style.css")
	hash := sha256.Sum256(style)
	return look{
		templates: template.Must(template.ParseFS(files, "templates/*.html")),
		style:     template.CSS(style), //nolint:gosec // our own embedded file
		policy: "default-src 'none'; img-src data:; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

// page renders a template once. Nothing on the pages depends on the request.
func (l look) page(name, heading string, status int, body any) http.Handler {
	var html bytes.Buffer
	err := l.templates.ExecuteTemplate(&html, name, struct {
		Heading string
		Style   template.CSS
		Body    any
	}{heading, l.style, body})
	if err != nil {
		panic(fmt.Sprintf("render %s: %v", name, err)) // the templates are ours and embedded
	}
	return htmlPage(html.Bytes(), status, l.policy)
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
