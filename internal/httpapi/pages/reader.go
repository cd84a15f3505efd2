package pages

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
)

// readerPolicy lets RapiDoc work and nothing more. It writes style elements and attributes at run time, so it needs
// 'unsafe-inline' for styles; scripts come from this server alone, and "Try" reaches this server alone.
const readerPolicy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// link is one in the reader's column.
type link struct{ To, Text string }

func publicReader(at Addresses) http.Handler {
	return reader("public", "demo-acme-key", []link{
		{"/", "Start page"}, {"/problems", "Problems"}, {"/openapi.yaml", "OpenAPI"},
		{at.Operator + "/docs", "Operator"},
	})
}

func operatorReader(at Addresses) http.Handler {
	return reader("operator", "demo-operator-key", []link{
		{at.Public + "/", "Start page"}, {at.Public + "/problems", "Problems"}, {"/openapi.yaml", "OpenAPI"},
		{at.Public + "/docs", "Public API"},
	})
}

// reader is the page for one of the listeners. apiKey is the demo's, to try with.
func reader(listener, apiKey string, links []link) http.Handler {
	var html bytes.Buffer
	docs := template.Must(template.ParseFS(files, "templates/docs.html"))
	err := docs.Execute(&html, struct {
		Version, Listener, APIKey string
		Links                     []link
	}{rapidocVersion, listener, apiKey, links})
	if err != nil {
		panic(fmt.Sprintf("render docs.html: %v", err)) // the template is ours and embedded
	}
	return htmlPage(html.Bytes(), http.StatusOK, readerPolicy)
}
