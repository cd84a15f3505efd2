// Package contract holds HTTP exchanges against openapi.yaml. A test puts its Transport between the client and the
// server; each answer that is not what the document says, and each request that was accepted although the document
// forbids it, fails the test.
//
// It owns what "as documented" means: the status is listed for the operation, the required headers are there and have
// the form, the media type is listed, the body fits the schema, and a problem's code, status, type, retryable and
// newKeySafe agree with each other and with the catalogue. It refuses to know what a test is about: whether 201 was the
// right answer is the test's business.
//
// A request is judged only when it was answered below 400. Tests send wrong requests on purpose, and the server refuses
// them.
package contract

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"payonce/internal/httpapi"
)

// shared is the document of this test binary.
//
//nolint:gochecknoglobals // a test binary has no other place for what its tests share
var shared = sync.OnceValues(func() (*Document, error) { return Load(httpapi.OpenAPI()) })

// Transport wraps base so that everything that passes is checked against the shared document on behalf of t. It may be
// used by many goroutines, until t has ended.
func Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	document, err := shared()
	if err != nil {
		t.Fatalf("contract: %v", err)
	}
	return document.Transport(t, base)
}

// Transport is the function of that name, for a document of one's own.
func (d *Document) Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	return &transport{document: d, base: base, complain: func(e exchange, complaint string) {
		t.Errorf("contract: %s answered %d: %s\n%s", e.what(), e.status, complaint, e.answerForPeople())
	}}
}

// what names the request in complaints, without its headers: those hold secrets.
func (e exchange) what() string { return fmt.Sprintf("%s %s", e.method, e.url.RequestURI()) }

// answerForPeople is the start of the body, enough to see what it is about.
func (e exchange) answerForPeople() string {
	const most = 1000
	if len(e.answer) > most {
		return string(e.answer[:most]) + " …"
	}
	return string(e.answer)
}
