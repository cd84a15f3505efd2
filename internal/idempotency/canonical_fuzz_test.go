package idempotency_test

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

// The canonical form of what Validate accepts is that of RFC 8785, as the reference implementation writes it.
func FuzzCanonical(f *testing.F) {
	f.Add("cus-1", int64(12000), "a\u00e9\n\"\\/<&>\u2028\U0001f4b3", "order", "42", "A.b", "\u007f")
	f.Add("cus-1", int64(999_999_999_999), "", "b", "", "a", "\ufeff")
	f.Fuzz(func(t *testing.T, customer string, amount int64, text, name1, value1, name2, value2 string) {
		r := payments.CreateRequest{
			CustomerID: customer, AmountCents: payments.AmountMinor(amount), Currency: "USD", Description: text,
			Metadata: map[string]string{name1: value1, name2: value2},
		}
		if !utf8.ValidString(text) || !utf8.ValidString(value1) || !utf8.ValidString(value2) || r.Validate() != nil {
			if got, err := idempotency.Canonical(method, path, r); err == nil && !stdjson.Valid(got) {
				t.Fatalf("not even JSON: %s", got)
			}
			return
		}
		for what, request := range map[string]any{path: r, path +
			"/pay_1/refunds": payments.RefundRequest{AmountCents: r.AmountCents, Reason: text}} {
			if refund, ok := request.(payments.RefundRequest); ok && refund.Validate(true) != nil {
				continue // its texts are shorter
			}
			got, err := idempotency.Canonical(method, what, request)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := stdjson.Marshal(map[string]any{"method": method, "path": what, "request": request})
			if err != nil {
				t.Fatal(err)
			}
			if want, err := jcs.Transform(raw); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s\nby the reference %s, %v", got, want, err)
			}
		}
	})
}

// A pass-through key that is understood is one that goes out so: what the PSP says of another is never taken for news
// of one of ours.
func FuzzParsePassThrough(f *testing.F) {
	f.Add("order-0000000042.g2")
	f.Add("order-0000000042.g02")
	f.Add("order-0000000042.g2147483648")
	f.Fuzz(func(t *testing.T, s string) {
		key, generation, err := idempotency.ParsePassThrough(s)
		if err != nil {
			if !errors.Is(err, idempotency.ErrKeyInvalid) || key != (idempotency.Key{}) || generation != 0 {
				t.Fatalf("%q is refused with %v, and %d of %q", s, err, generation, key)
			}
			return
		}
		if again, err := idempotency.ParseKey(key.String()); err != nil || again != key || generation < 1 {
			t.Fatalf("%q is generation %d of %q, which no client can send: %v", s, generation, key, err)
		}
		if out := (idempotency.Execution{Ref: idempotency.Ref{Key: key},
			Generation: generation}).PassThroughKey(); out != s {
			t.Fatalf("%q is generation %d of %q, which goes out as %q", s, generation, key, out)
		}
	})
}
