package native_test

import (
	"fmt"
	"net/http"
	"testing"

	"payonce/internal/gateway"
	"payonce/test/heldport"
)

// What may happen to a request is tried in package wire. Here is what a charge, a refund, a lookup and a list make of
// it.

// refund sends aRefund. Whatever comes of it, the reason holds nothing that a log must not.
func (c *client) refund() gateway.Outcome {
	c.t.Helper()
	return c.checked(c.Refund(c.t.Context(), aRefund()))
}

func TestRequestThatFindsNobodyWasNotExecuted(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://"+heldport.Address(t))
	notExecuted(t, c.charge(), "no connection to the PSP")
	notExecuted(t, c.refund(), "no connection to the PSP")
	// A read that finds nobody proves nothing.
	lookupFailed(t, c.lookup(), "no connection to the PSP")
	listFailed(t, c, "no connection to the PSP")
}

// The PSP would read a request without its body, or with half of it.
func TestRequestThatCannotBeWrittenAsJSONWasNotExecuted(t *testing.T) {
	t.Parallel()
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.RequestURI) })
	c := newClient(t, s.URL)
	ch, r := aCharge(), aRefund()
	ch.Reference, r.Reason = "no UTF-8: \xff", "no UTF-8: \xff"
	notExecuted(t, c.checked(c.Charge(t.Context(), ch)), "request could not be built")
	notExecuted(t, c.checked(c.Refund(t.Context(), r)), "request could not be built")
}

// What came before the end was complete JSON, and said what it was to say.
func TestLostAnswerDecidesNothing(t *testing.T) {
	t.Parallel()
	head := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body)
	}
	for name, text := range map[string]string{
		"closed after the request": "", "closed in the body": head(charged), "closed in the list": head(nothingHeld),
		"before the last chunk": fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
			len(nothingHeld), nothingHeld),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, raw(t, text).URL)
			indeterminate(t, c.charge(), "connection lost")
			indeterminate(t, c.refund(), "connection lost")
			lookupFailed(t, c.lookup(), "connection lost")
			listFailed(t, c, "connection lost")
		})
	}
}
