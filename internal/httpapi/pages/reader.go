package pages

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
)

// readerPolicy lets RapiDoc work and nothing more. It writes style elements and attributes at run time, hence
// 'unsafe-inline' for styles; scripts come from this server alone, and "Try" reaches this server alone.
const readerPolicy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func reader() http.Handler {
	var html bytes.Buffer
	docs := template.Must(template.ParseFS(files, "templates/docs.html"))
	if err := docs.Execute(&html, struct{ Version string }{rapidocVersion}); err != nil {
		panic(fmt.Sprintf("render docs.html: %v", err)) // the template is ours and embedded
	}
	return htmlPage(html.Bytes(), http.StatusOK, readerPolicy)
}
