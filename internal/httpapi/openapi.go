package httpapi

import (
	"cmp"
	_ "embed"
	"strings"

	"payonce/internal/httpapi/pages"
)

//go:embed openapi.yaml
var openapi []byte

// OpenAPI is the OpenAPI 3.1 document of both listeners.
func OpenAPI() []byte { return openapi }

// The document has these texts where the addresses of an installation belong.
const (
	documentedPublic   = "http://localhost:8080"
	documentedOperator = "http://localhost:8081"
	documentedServer   = "  - url: /\n    description: The server that shows you this page.\n"
)

func operatorOr(url string) string { return cmp.Or(url, documentedOperator) }

// published is the document for the public listener, with the addresses of this installation.
func published(at pages.Addresses) []byte {
	return []byte(strings.NewReplacer(documentedPublic, at.Public, documentedOperator,
		at.Operator).Replace(string(openapi)))
}

// publishedToOperators is the document for the operator's listener, which does not serve the public operations.
func publishedToOperators(at pages.Addresses) []byte {
	public := "  - url: " + at.Public + "\n    description: The public API.\n"
	return []byte(strings.NewReplacer(documentedServer, public, documentedPublic, at.Public, documentedOperator,
		at.Operator).Replace(string(openapi)))
}
