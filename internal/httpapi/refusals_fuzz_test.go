package httpapi

import (
	"bytes"
	stdjson "encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"payonce/internal/payment"
	"payonce/internal/problem"
)

// What a refund's body is taken for is what the standard library reads in it; no amount is told from an amount of
// nothing.
func FuzzRefundBody(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"amountCents":500,"reason":"broken \u00e9\n"}`))
	f.Add([]byte(`{"amountCents":0}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var body refundRequest
		if bad := decode(raw, &body); bad != nil {
			checkRefusal(t, bad)
			return
		}
		var theirs struct {
			AmountCents *stdjson.Number
			Reason      *string
		}
		if err := stdjson.Unmarshal(raw, &theirs); err != nil {
			t.Fatalf("accepted, but not by encoding/json: %v", err)
		}
		if (body.AmountCents == nil) != (theirs.AmountCents == nil) || deref(body.Reason) != deref(theirs.Reason) {
			t.Fatalf("%s is read as %+v, by encoding/json as %+v", raw, body, theirs)
		}
		if body.AmountCents != nil && theirs.AmountCents.String() != strconv.FormatInt(*body.AmountCents, 10) &&
			*body.AmountCents != 0 {
			t.Fatalf("%s is read as %d", theirs.AmountCents, *body.AmountCents)
		}
		request := payment.RefundRequest{AmountCents: payment.AmountMinor(deref(body.AmountCents)),
			Reason: deref(body.Reason)}
		if body.AmountCents != nil && *body.AmountCents == 0 {
			return // createRefund refuses it
		}
		wrong := request.Validate()
		for _, i := range wrong {
			if !slices.Contains(sentences, i.Detail) || *i.Pointer != "/amountCents" && *i.Pointer != "/reason" {
				t.Fatalf("refused with %+v", i)
			}
		}
		if wrong == nil && body.AmountCents != nil && *body.AmountCents < 1 {
			t.Fatalf("%s gives back the whole rest, which was not asked for", raw)
		}
	})
}

// A body is read whole, as the bytes that were sent, or not at all; and never beyond its limit, whatever length it
// claims.
func FuzzReadJSON(f *testing.F) {
	f.Add("application/json", "", []byte(`{}`), int64(2))
	f.Add("application/json; charset=UTF-8", "", []byte(strings.Repeat(" ", 65)), int64(-1))
	f.Add("application/json; charset=latin1", "gzip", []byte{}, int64(0))
	const limit = 64
	f.Fuzz(func(t *testing.T, contentType, encoding string, body []byte, claimed int64) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header["Content-Type"], r.ContentLength = []string{contentType}, claimed
		if encoding != "" {
			r.Header["Content-Encoding"] = []string{encoding}
		}
		raw, bad := readJSON(httptest.NewRecorder(), r, limit, "too long")
		lower := strings.ToLower(contentType)
		switch {
		case bad == nil:
			if !bytes.Equal(raw, body) || len(body) > limit || encoding != "" {
				t.Fatalf("%d bytes in %q are read as %d", len(body), encoding, len(raw))
			}
			if !strings.HasPrefix(strings.TrimSpace(lower), "application/json") || strings.Contains(lower, "charset") &&
				!strings.Contains(lower, "utf-8") {
				t.Fatalf("%q is taken for JSON", contentType)
			}
		case bad.code == problem.BodyTooLarge && len(body) > limit:
		case bad.code == problem.UnsupportedMediaType && (contentType != "application/json" || encoding != ""):
		default:
			t.Fatalf("%d bytes of %q in %q are refused as %s", len(body), contentType, encoding, bad.code)
		}
	})
}

// There is one way to write a bearer token: what is taken is what would be sent of it.
func FuzzBearer(f *testing.F) {
	f.Add("Bearer demo-acme-key", false)
	f.Add("bearer  x ", false)
	f.Add("Basic YTpi", false)
	f.Add("Bearer a", true)
	f.Fuzz(func(t *testing.T, sent string, repeated bool) {
		r := &http.Request{Header: http.Header{"Authorization": {sent}}}
		if repeated {
			r.Header.Add("Authorization", sent)
		}
		token, ok := bearer(r)
		if !ok {
			return
		}
		if repeated || token == "" || !strings.HasSuffix(strings.TrimSpace(sent), token) ||
			!strings.EqualFold(sent[:6], "Bearer") {
			t.Fatalf("%q, repeated %t, is the token %q", sent, repeated, token)
		}
		if again, ok := bearer(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}); !ok ||
			again != token {
			t.Fatalf("%q is the token %q, and that one %q", sent, token, again)
		}
	})
}

// A key in a path is one that a header could have had, and is found again under its own escape.
func FuzzKeyInPath(f *testing.F) {
	f.Add("/k/0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44", "operation=POST+/payments")
	f.Add("/k/order%2F0000000042%2f", "operation=POST+/payments/%7Bid%7D/refunds")
	f.Add("/k/order%252F0000000042", "operation=")
	f.Fuzz(func(t *testing.T, target, query string) {
		if op, bad := operationOf(query); bad == nil && op != payment.CreateOperation &&
			op != payment.RefundOperation {
			t.Fatalf("%q asks for %q", query, op)
		}
		u, err := url.Parse(target)
		if err != nil || !strings.HasPrefix(u.EscapedPath(), "/k/") {
			return
		}
		key, found := routed(u)
		if !found {
			return
		}
		again, err := url.Parse("/k/" + url.PathEscape(key))
		if err != nil {
			t.Fatal(err)
		}
		if second, found := routed(again); !found || second != key {
			t.Fatalf("%q is the key %q, and escaped by itself %q, %t", target, key, second, found)
		}
	})
}

// routed is the key that the router and we find in a path, if it is one.
func routed(u *url.URL) (key string, found bool) {
	router := chi.NewRouter()
	router.Get("/k/{key}", func(_ http.ResponseWriter, r *http.Request) {
		k, err := keyInPath(r)
		key, found = k.String(), err == nil
	})
	router.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}})
	return key, found
}
