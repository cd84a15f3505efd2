package pages

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"

	"payonce/internal/problem"
)

// readerPolicy lets Swagger UI work and nothing more. Scripts and styles come from this server alone, "Execute" reaches
// this server alone, and the pictures of its buttons are in its stylesheet.
const readerPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// link is one in the reader's header.
type link struct{ To, Text string }

// readerView is what docs.html shows. APIKey is the demo's, to try with, or "". Base is the path before each path of
// the server that shows it.
type readerView struct {
	Title, Version, Listener, APIKey, Base, Home string
	Links                                        []link
}

func publicReader(at Addresses) http.Handler {
	base := problem.Path(at.Public, "")
	return reader(at, readerView{
		Title: "API reference", Listener: "public", APIKey: "demo-acme-key", Base: base, Home: base + "/",
		Links: []link{
			{base + "/docs", "API reference"}, {at.Operator + "/docs", "Operator API"},
			{base + "/problems", "Problems"}, {base + "/openapi.yaml", "OpenAPI"},
		},
	})
}

func operatorReader(at Addresses) http.Handler {
	return reader(at, readerView{
		Title: "Operator API", Listener: "operator", APIKey: "demo-operator-key", Home: at.Public + "/",
		Links: []link{
			{at.Public + "/docs", "API reference"}, {"/docs", "Operator API"}, {at.Public + "/problems", "Problems"},
			{"/openapi.yaml", "OpenAPI"},
		},
	})
}

// reader is the page for one of the listeners.
func reader(at Addresses, view readerView) http.Handler {
	var html bytes.Buffer
	view.Version = swaggerVersion
	if at.PSP == "" {
		view.APIKey = ""
	}
	docs := template.Must(template.ParseFS(files, "templates/docs.html"))
	if err := docs.Execute(&html, view); err != nil {
		panic(fmt.Sprintf("render docs.html: %v", err)) // the template is ours and embedded
	}
	return htmlPage(html.Bytes(), http.StatusOK, readerPolicy)
}
