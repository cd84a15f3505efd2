package httpapi

import _ "embed"

//go:embed openapi.yaml
var openapi []byte

// OpenAPI is the OpenAPI 3.1 document of both listeners.
func OpenAPI() []byte { return openapi }
