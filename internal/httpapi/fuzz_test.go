package httpapi

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/problem"
)

// sentences are all that a refused body may be told. Whatever else appeared there could be a part of what was sent.
var sentences = []string{
	notJSON, badUTF8, notAnInt, notAnObj, noNull, noNUL, unknown, twice, tooDeep, mustEnd, outOfRange, noPAN,
	"is required", "must be a string", "must be an object",
	"must not be empty; leave it out for the default",
	"must be 1 to 64 letters, digits or . _ : -",
	"must be an ISO 4217 code in use, in upper case, such as USD",
	"must be a PSP token: pm_ and up to 61 lower-case letters, digits or underscores",
	"must be at most 500 characters", "must be at most 200 characters", "must not hold control characters",
	"must be 1 to 100 characters, and no control characters",
	"must have at most 20 entries", "each name must be 1 to 40 letters, digits or . _ -, and no card number",
}

var pointerForm = regexp.MustCompile(`^(/[A-Za-z0-9_.-]{1,40}){0,8}$`)

// What is accepted means the same when it is written once more, and the same as to the standard library's parser; what
// is refused names places in words of ours.
func FuzzDecodeBody(f *testing.F) {
	f.Add([]byte(with("", "")))
	f.Add([]byte(and(`"paymentMethod":"pm_slow","description":"a\u00e9\n","metadata":{"a":"b","c.d":""}`)))
	f.Add([]byte(and(`"\u0063urrency":"USD","reference":"order 42"`)))
	f.Add([]byte(with(`12000`, `12e3`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		request, bad := take(raw)
		if bad != nil {
			checkRefusal(t, bad)
			return
		}
		var other struct {
			CustomerID, Currency, PaymentMethod, Reference, Description string
			AmountCents                                                 stdjson.Number
			Metadata                                                    map[string]string
		}
		if err := stdjson.Unmarshal(raw, &other); err != nil {
			t.Fatalf("accepted, but not by encoding/json: %v", err)
		}
		if other.PaymentMethod == "" {
			other.PaymentMethod = payment.DefaultPaymentMethod
		}
		theirs := payment.CreateRequest{
			CustomerID: other.CustomerID, Currency: payment.Currency(other.Currency),
			PaymentMethod: other.PaymentMethod,
			Reference:     other.Reference, Description: other.Description, Metadata: other.Metadata,
		}
		amount, err := other.AmountCents.Int64()
		if theirs.AmountCents = payment.AmountMinor(amount); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(theirs, request); diff != "" {
			t.Fatalf("encoding/json reads it otherwise (-theirs +ours):\n%s", diff)
		}
		again, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		second, bad := take(again)
		if bad != nil {
			t.Fatalf("accepted, and refused when written once more: %v\n%s", bad.at(), again)
		}
		if fingerprint(t, second) != fingerprint(t, request) {
			t.Fatalf("another request when written once more: %+v, then %+v", request, second)
		}
	})
}

func checkRefusal(t *testing.T, bad *requestError) {
	t.Helper()
	if bad.code != problem.InvalidRequest || len(bad.errors) == 0 || len(bad.errors) > 50 {
		t.Fatalf("%s with %d errors", bad.code, len(bad.errors))
	}
	for _, e := range bad.errors {
		if e.Pointer == nil || !pointerForm.MatchString(*e.Pointer) || !slices.Contains(sentences, e.Detail) {
			t.Fatalf("refused with %+v", e)
		}
	}
}

func fingerprint(t *testing.T, r payment.CreateRequest) idempotency.Fingerprint {
	t.Helper()
	print, err := idempotency.FingerprintOf(http.MethodPost, "/payments", r)
	if err != nil {
		t.Fatal(err)
	}
	return print
}

var anyNumber = regexp.MustCompile(`[0-9]+`)

func FuzzKeyHeader(f *testing.F) {
	refusals := map[string]bool{}
	for _, sentence := range []string{
		"the header is repeated", "it begins with a quote and is no string of RFC 8941",
		"it must be one string without parameters",
		"it has # characters, # to # are allowed",
		"the character at position # is not allowed; use printable ASCII without spaces and commas",
		"it looks like an e-mail address; use a random value such as a UUID",
		"it holds a card number; use a random value such as a UUID",
		"the ending .g and digits is reserved",
	} {
		refusals[idempotency.ErrKeyInvalid.Error()+": "+sentence] = true
	}
	f.Add("0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44")
	f.Add(`"0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44"`)
	f.Add(`"a\"b\\c-0123456789";p`)
	f.Add("4111111111111111")
	f.Fuzz(func(t *testing.T, sent string) {
		key, err := keyOf(http.Header{keyHeader: {sent}})
		switch {
		case errors.Is(err, errKeyMissing):
			if sent != "" {
				t.Fatalf("%q is missing", sent)
			}
			return
		case err != nil:
			words := anyNumber.ReplaceAllString(strings.ReplaceAll(err.Error(), "RFC 8941", "RFC"), "#")
			if words = strings.ReplaceAll(words, "RFC", "RFC 8941"); !refusals[words] {
				t.Fatalf("refused with %q", err)
			}
			return
		}
		k := key.String()
		if len(k) < 16 || len(k) > 255 || strings.ContainsFunc(k,
			func(c rune) bool { return c <= ' ' || c > '~' || c == ',' }) {
			t.Fatalf("%q is accepted as %q", sent, k)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(k) + `"`
		for _, spelling := range []string{k, quoted} {
			if again, err := keyOf(http.Header{keyHeader: {spelling}}); err != nil || again != key {
				t.Fatalf("%q is %q, written as %q it is %q, %v", sent, k, spelling, again, err)
			}
		}
	})
}

func FuzzPrefer(f *testing.F) {
	f.Add("respond-async, wait=5")
	f.Add(`wait="10";x, return=minimal`)
	f.Add("WAIT=99999999999")
	f.Fuzz(func(t *testing.T, sent string) {
		got := preferenceOf(http.Header{"Prefer": {sent}})
		if got.wait < 0 || got.wait > 10*time.Second || got.wait%time.Second != 0 ||
			got.wait > 0 && !got.chosen {
			t.Fatalf("%q waits for %s", sent, got.wait)
		}
		if got.async && !strings.Contains(strings.ToLower(sent), "respond-async") || got.chosen &&
			!strings.Contains(strings.ToLower(sent), "wait") {
			t.Fatalf("%q is %+v", sent, got)
		}
		if other := preferenceOf(http.Header{"Prefer": {"x-unknown=1", sent, "wait=oops"}}); other != got {
			t.Fatalf("%q is %+v, among others %+v", sent, got, other)
		}
	})
}

func FuzzFilter(f *testing.F) {
	f.Add("customerId=cus-1&status=failed&limit=7&cursor=pay_01k9z3w5m8fk2v7q4d6h0r1txe")
	f.Add("limit=1&limit=2&reference=order%2042")
	f.Add("customerId=%00&x=%ff")
	f.Add("a;b=%zz")
	f.Add("createdAfter=2026-11-20T09:30:00Z&createdBefore=2026-11-20T10:30:00.5%2B01:00")
	known := []string{noCustomer, noRef, noStatus, noAfter, noBefore, noLater, noLimit, noCursor, noQuery, noName,
		"customerId " + twice, "reference " + twice, "status " + twice, "createdAfter " + twice,
		"createdBefore " + twice, "limit " + twice, "cursor " + twice}
	f.Fuzz(func(t *testing.T, query string) {
		got, bad := filterOf(query)
		if bad != nil {
			for _, line := range bad.parameters() {
				if !slices.Contains(known, line) || len(bad.errors) > 15 {
					t.Fatalf("refused with %q", bad.parameters())
				}
			}
			if len(bad.errors) == 0 {
				t.Fatal("refused without a reason")
			}
			return
		}
		if got.Limit < 1 || got.Limit > 100 || !utf8.ValidString(got.CustomerID) ||
			bytes.ContainsRune([]byte(got.CustomerID), 0) {
			t.Fatalf("%q is accepted as %+v", query, got)
		}
		again := url.Values{"limit": {strconv.Itoa(got.Limit)}}
		if got.CustomerID != "" {
			again.Set("customerId", got.CustomerID)
		}
		if got.Reference != "" {
			again.Set("reference", got.Reference)
		}
		if got.Status != "" {
			again.Set("status", string(got.Status))
		}
		if got.Before != nil {
			again.Set("cursor", got.Before.String())
		}
		if got.CreatedAfter != nil {
			again.Set("createdAfter", got.CreatedAfter.Format(time.RFC3339Nano))
		}
		if got.CreatedBefore != nil {
			again.Set("createdBefore", got.CreatedBefore.Format(time.RFC3339Nano))
		}
		second, bad := filterOf(again.Encode())
		if diff := cmp.Diff(got, second); bad != nil || diff != "" {
			t.Fatalf("%q is another filter when written once more: %v\n%s", query, bad.parameters(), diff)
		}
	})
}
