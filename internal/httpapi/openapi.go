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

// What the document has in the place of addresses.
const (
	documentedPublic   = "http://localhost:8080"
	documentedOperator = "http://localhost:8081"
	documentedServer   = "  - url: /\n    description: The server that you read this on.\n"
)

func operatorOr(url string) string { return cmp.Or(url, documentedOperator) }

// published is the document with the addresses of this installation, for the public listener.
func published(at pages.Addresses) []byte {
	return []byte(strings.NewReplacer(documentedPublic, at.Public, documentedOperator, at.Operator).Replace(string(openapi)))
}

// publishedToOperators is the same for the operator's listener, which does not answer the public operations.
func publishedToOperators(at pages.Addresses) []byte {
	public := "  - url: " + at.Public + "\n    description: The public API.\n"
	return []byte(strings.NewReplacer(documentedServer, public, documentedPublic, at.Public, documentedOperator, at.Operator).Replace(string(openapi)))
}
