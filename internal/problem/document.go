// Package problem is the catalogue of everything that the API can answer instead of success, and the document (RFC
// 9457, application/problem+json) that carries it.
//
// It owns the codes, the HTTP status and title that belong to each, whether the same idempotency key may be sent again,
// whether another key for the same intent is safe, and the explanation that the page behind a document's type URL
// shows. It refuses to know how a failure came about: callers choose the code and write the detail, and must not put
// anything internal into it.
//
// Invariants: a code has exactly one status; a document's bytes depend on its members alone, in one fixed order, so a
// stored refusal can be replayed byte for byte.
package problem

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ContentType is the media type of a Document (RFC 9457, section 3).
const ContentType = "application/problem+json"

// Detail is one reason why a request is invalid. At most one of Pointer, Parameter and Header says where.
type Detail struct {
	// Pointer is an RFC 6901 JSON pointer into the request body; the empty pointer is the whole body.
	// omitempty would drop that one, so the tag says omitzero.
	Pointer   *string `json:"pointer,omitzero"`
	Parameter string  `json:"parameter,omitempty"` // a query or path parameter's name
	Header    string  `json:"header,omitempty"`    // a request header's name
	Detail    string  `json:"detail"`
}

// AtPointer is a Detail about the place in the body that pointer names; "" is the whole body.
func AtPointer(pointer, detail string) Detail {
	return Detail{Pointer: &pointer, Detail: detail}
}

// Document is one problem document. Its members are written in the order of the fields.
type Document struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Status      int      `json:"status"`
	Detail      string   `json:"detail"`
	Instance    string   `json:"instance"`
	Code        Code     `json:"code"`
	Retryable   bool     `json:"retryable"`
	NewKeySafe  bool     `json:"newKeySafe"`
	PaymentID   string   `json:"paymentId,omitempty"`
	RefundID    string   `json:"refundId,omitempty"`
	DeclineCode string   `json:"declineCode,omitempty"`
	Errors      []Detail `json:"errors,omitempty"`
}

// New fills a document from the catalogue. publicURL is the server's own base URL, with or without a slash at its end;
// detail is about this occurrence, for the client's eyes; instance is a URI reference that identifies the occurrence.
// A code outside the catalogue becomes internal_error, so that no answer ever leaves without an explanation.
func New(publicURL string, code Code, detail, instance string) Document {
	entry, known := Lookup(code)
	if !known {
		entry, _ = Lookup(InternalError)
	}
	return Document{
		Type:      strings.TrimRight(publicURL, "/") + "/problems/" + string(entry.Code),
		Title:     entry.Title,
		Status:    entry.Status,
		Detail:    detail,
		Instance:  instance,
		Code:      entry.Code,
		Retryable: entry.Retryable, NewKeySafe: entry.NewKeySafe,
	}
}

// Path is the path by which a client reaches a path of the public API: with the path of publicURL before it, which a
// proxy takes away.
func Path(publicURL, path string) string {
	_, rest, _ := strings.Cut(publicURL, "://")
	_, base, _ := strings.Cut(strings.TrimRight(rest, "/"), "/")
	if base == "" {
		return path
	}
	return "/" + base + path
}

// JSON returns the document's bytes, one line with a newline at its end. Equal documents have equal bytes.
// Invalid UTF-8, which only a client's own input could bring here, is replaced by U+FFFD.
func (d Document) JSON() []byte {
	body, err := json.Marshal(d, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("write problem document: %v", err)) // strings, a number and a bool cannot fail to encode
	}
	return append(body, '\n')
}
