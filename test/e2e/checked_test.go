package e2e

import (
	"net/http"
	"testing"

	"payonce/test/contract"
)

// checked holds every exchange against openapi.yaml.
func checked(t testing.TB, base http.RoundTripper) http.RoundTripper {
	return contract.Transport(t, base)
}
