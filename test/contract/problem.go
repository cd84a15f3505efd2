package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/internal/idempotency"
	"payonce/internal/problem"
)

const problemType = problem.ContentType

// checkProblem holds a problem document against the document's codes and against the catalogue, which the pages behind
// the types show.
func checkProblem(described answer, e exchange) []string {
	if e.method == http.MethodHead || !strings.HasPrefix(e.received.Get("Content-Type"), problemType) {
		return nil // the first has no body; the media type has been complained about
	}
	var p problem.Document
	if err := json.Unmarshal(e.answer, &p); err != nil {
		return []string{fmt.Sprintf("read problem document: %v", err)}
	}
	var complaints []string
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }

	if !slices.Contains(described.codes, string(p.Code)) {
		complain("code %q is not documented for it, only %v", p.Code, described.codes)
	}
	if p.Status != e.status {
		complain("the problem says status %d", p.Status)
	}
	if !strings.HasSuffix(p.Type, "/problems/"+string(p.Code)) {
		complain("type %q does not lead to the page of %q", p.Type, p.Code)
	}
	if entry, known := problem.Lookup(p.Code); !known {
		complain("code %q is not in the catalogue", p.Code)
	} else if entry.Title != p.Title || entry.Status != p.Status || entry.Retryable != p.Retryable ||
		entry.NewKeySafe != p.NewKeySafe {
		complain("title, status, retryable or newKeySafe differ from the catalogue's: %q, %d, %v, %v", entry.Title,
			entry.Status, entry.Retryable, entry.NewKeySafe)
	}
	if !identifies(p, e) {
		complain("instance %q identifies neither the request nor what was declined", p.Instance)
	}
	return complaints
}

// identifies says whether the instance does its work: a stored refusal names its resource, everything else ends in the
// request's id.
func identifies(p problem.Document, e exchange) bool {
	switch p.Code {
	case problem.PaymentDeclined:
		return p.Instance == "/payments/"+p.PaymentID
	case problem.RefundDeclined:
		return p.Instance == "/refunds/"+p.RefundID
	}
	return strings.HasSuffix(p.Instance, "#"+e.received.Get("X-Request-Id"))
}

// checkKeyHeaders holds the headers about the key against each other, where a schema cannot.
func checkKeyHeaders(o *operation, e exchange) []string {
	var complaints []string
	if echo, sent := e.received.Get("Idempotency-Key"), o.keyIn(e); o.keyed() && echo != sent {
		complaints = append(complaints, fmt.Sprintf("Idempotency-Key is %q, and %q was sent", echo, sent))
	}
	final := e.status == http.StatusCreated || e.status == http.StatusPaymentRequired
	if e.received.Get("Idempotent-Replayed") == "true" && !final {
		complaints = append(complaints, "it claims to be a replay, and only final answers are stored")
	}
	return complaints
}

// keyed says whether the operation takes an Idempotency-Key.
func (o *operation) keyed() bool { return slices.ContainsFunc(o.parameters, isKey) }

func isKey(f field) bool { return f.in == "header" && f.name == "Idempotency-Key" }

// keyIn is the key that was sent, or "" if it was not one that can be taken.
func (o *operation) keyIn(e exchange) string {
	values := e.sent.Values("Idempotency-Key")
	i := slices.IndexFunc(o.parameters, isKey)
	if i < 0 || len(values) != 1 || o.parameters[i].check(values[0]) != "" {
		return ""
	}
	key, err := idempotency.ParseKey(bare(values[0]))
	if err != nil {
		return ""
	}
	return key.String()
}

// bare undoes the quoting of RFC 8941, section 3.3.3.
func bare(key string) string {
	if len(key) < 2 || key[0] != '"' || key[len(key)-1] != '"' {
		return key
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key[1 : len(key)-1])
}
