package idempotency_test

import (
	"bytes"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

const (
	method = "POST"
	path   = "/payments"
)

// requests draws what Validate accepts, with defaults applied.
func requests() *rapid.Generator[payment.CreateRequest] {
	text := rapid.StringOf(rapid.OneOf(
		rapid.RuneFrom([]rune("aZ09 \"\\/\t\n<>&'é한\u007f\u2028\u2029\ufeff\U0001f4b3")), rapid.Rune(),
	).Filter(func(r rune) bool { return r >= ' ' || r == '\n' || r == '\t' }))
	return rapid.Custom(func(t *rapid.T) payment.CreateRequest {
		return normal(payment.CreateRequest{
			CustomerID: rapid.StringMatching(`[A-Za-z0-9._:-]{1,12}`).Draw(t, "customer"),
			AmountCents: rapid.OneOf(rapid.Just(payment.MinAmount), rapid.Just(payment.MaxAmount),
				rapid.Custom(func(t *rapid.T) payment.AmountMinor {
					return payment.AmountMinor(rapid.Int64Range(1, int64(payment.MaxAmount)).Draw(t, "minor"))
				})).Draw(t, "amount"),
			Currency:      rapid.SampledFrom([]payment.Currency{"USD", "KRW", "KWD", "EUR"}).Draw(t, "currency"),
			PaymentMethod: rapid.SampledFrom([]string{"", "pm_ok", "pm_declined", "pm_x"}).Draw(t, "method"),
			Reference:     rapid.SampledFrom([]string{"", "order-42", "order 43", "caf\u00e9"}).Draw(t, "reference"),
			Description:   text.Draw(t, "description"),
			Metadata: rapid.MapOfN(rapid.StringMatching(`[A-Za-z0-9_.-]{1,6}`), text, 0, 4).
				Draw(t, "metadata"),
		})
	}).Filter(func(r payment.CreateRequest) bool { return r.Validate() == nil })
}

// normal applies the defaults, and makes of two ways to say nothing the same one.
func normal(r payment.CreateRequest) payment.CreateRequest {
	r.Validate()
	if len(r.Metadata) == 0 {
		r.Metadata = nil
	}
	return r
}

// spell draws one of the many texts that ask for r.
func spell(t *rapid.T, r payment.CreateRequest) string {
	space := rapid.SampledFrom([]string{"", " ", "\n", "\t", "\r\n  "})
	str := func(s string) string { return spellString(t, s) }
	members := []string{
		str("customerId") + ":" + str(r.CustomerID),
		str("amountCents") + ":" + fmt.Sprint(r.AmountCents),
		str("currency") + ":" + str(string(r.Currency)),
	}
	// What is the default, or nothing at all, may as well be left out.
	if r.PaymentMethod != payment.DefaultPaymentMethod || rapid.Bool().Draw(t, "default given") {
		members = append(members, str("paymentMethod")+":"+str(r.PaymentMethod))
	}
	if r.Reference != "" {
		members = append(members, str("reference")+":"+str(r.Reference))
	}
	if r.Description != "" || rapid.Bool().Draw(t, "empty description given") {
		members = append(members, str("description")+":"+str(r.Description))
	}
	if len(r.Metadata) > 0 || rapid.Bool().Draw(t, "empty metadata given") {
		var entries []string
		for _, name := range slices.Sorted(maps.Keys(r.Metadata)) {
			entries = append(entries, space.Draw(t, "space")+str(name)+space.Draw(t, "space")+":"+str(r.Metadata[name]))
		}
		members = append(members, str("metadata")+":{"+
			strings.Join(rapid.Permutation(entries).Draw(t, "order of metadata"), ",")+"}")
	}
	members = rapid.Permutation(members).Draw(t, "order")
	for i := range members {
		members[i] = space.Draw(t, "space") + members[i] + space.Draw(t, "space")
	}
	return space.Draw(t, "space") + "{" + strings.Join(members, ",") + "}" + space.Draw(t, "space")
}

// spellString writes each character plainly, or escaped where JSON lets it be.
func spellString(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\n': `\n`, '\t': `\t`}[r]
		how := rapid.IntRange(0, 5).Draw(t, "how")
		switch {
		case short != "" && how < 3:
			b.WriteString(short)
		case r < ' ' || r == '"' || r == '\\' || how == 5:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "hex"), unit)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// read takes a text as the API does: strictly, with the defaults applied.
func read(t *rapid.T, text string) payment.CreateRequest {
	var r payment.CreateRequest
	if err := json.Unmarshal([]byte(text), &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if bad := r.Validate(); bad != nil {
		t.Fatalf("%s: %v", text, bad)
	}
	return r
}

func fingerprintOf(t *rapid.T, method, path string, r payment.CreateRequest) idempotency.Fingerprint {
	f, err := idempotency.FingerprintOf(method, path, r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSameIntentHasTheSameFingerprintHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := requests().Draw(t, "request")
		want := fingerprintOf(t, method, path, r)
		for _, text := range []string{spell(t, r), spell(t, r)} {
			got := read(t, text)
			if diff := cmp.Diff(r, normal(got)); diff != "" {
				t.Fatalf("%s is another request:\n%s", text, diff)
			}
			if fingerprintOf(t, method, path, got) != want {
				t.Fatalf("%s has another fingerprint", text)
			}
		}
	})
}

func TestAnyChangeOfIntentChangesTheFingerprint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := requests().Draw(t, "request")
		was := fingerprintOf(t, method, path, r)
		if fingerprintOf(t, "PUT", path, r) == was || fingerprintOf(t, method, path+"/", r) == was {
			t.Fatal("method or path do not count")
		}
		other := r
		switch rapid.IntRange(0, 8).Draw(t, "change") {
		case 0:
			other.CustomerID += "x"
		case 1:
			if other.AmountCents++; other.AmountCents > payment.MaxAmount {
				other.AmountCents -= 2
			}
		case 2:
			other.Currency = map[payment.Currency]payment.Currency{"USD": "CAD", "KRW": "JPY", "KWD": "BHD",
				"EUR": "CHF"}[r.Currency]
		case 3:
			other.PaymentMethod += "y"
		case 4:
			other.Description += "z"
		case 5:
			other.Metadata = maps.Clone(r.Metadata)
			if other.Metadata == nil {
				other.Metadata = map[string]string{}
			}
			other.Metadata["added-by-test"] = ""
		case 6: // what is said in one member is not said in another
			other.CustomerID, other.PaymentMethod = r.PaymentMethod, r.CustomerID
		case 7:
			other.Reference += "1"
		case 8:
			for name, value := range r.Metadata {
				other.Metadata = maps.Clone(r.Metadata)
				other.Metadata[name] = value + "w"
				break
			}
		}
		if changed := !cmp.Equal(r, other); changed == (fingerprintOf(t, method, path, other) == was) {
			t.Fatalf("changed is %t, the fingerprint says otherwise: %+v, then %+v", changed, r, other)
		}
	})
}

func TestTwoRequestsShareAFingerprintOnlyIfTheyAreTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, other := requests().Draw(t, "one"), requests().Draw(t, "other")
		if cmp.Equal(one, other) != (fingerprintOf(t, method, path, one) == fingerprintOf(t, method, path, other)) {
			t.Fatalf("%+v and %+v", one, other)
		}
	})
}

// jcs is another implementation of RFC 8785, encoding/json another writer of JSON: both must come to the same bytes.
func TestCanonicalFormIsJCS(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := requests().Draw(t, "request")
		canonical, err := idempotency.Canonical(method, path, r)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := stdjson.Marshal(map[string]any{"path": path, "request": r, "method": method})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{canonical, plain} {
			oracle, err := jcs.Transform(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(oracle), string(canonical)); diff != "" {
				t.Fatalf("-jcs +ours:\n%s", diff)
			}
		}
	})
}

func TestRefundsFingerprintTellsWholeFromPartAndPaymentFromPayment(t *testing.T) {
	t.Parallel()
	seen := map[idempotency.Fingerprint]string{}
	for _, path := range []string{"/payments/pay_1/refunds", "/payments/pay_2/refunds"} {
		for _, r := range []payment.RefundRequest{{}, {AmountCents: 1}, {AmountCents: 12}, {Reason: "1"},
			{AmountCents: 1, Reason: "1"}} {
			f, err := idempotency.FingerprintOf(method, path, r)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s %+v", path, r)
			if twin, ok := seen[f]; ok {
				t.Errorf("%s and %s share a fingerprint", twin, name)
			}
			seen[f] = name
		}
	}
}

// Fingerprints are kept for as long as keys are: one that a deployment changes would turn every replay into a mismatch.
func TestFingerprintIsTheSameTomorrow(t *testing.T) {
	t.Parallel()
	r := payment.CreateRequest{
		CustomerID: "cus-1", AmountCents: 12000, Currency: "KRW", PaymentMethod: "pm_ok",
		Description: "caf\u00e9 \"42\" </>", Metadata: map[string]string{"order": "42", "Order": "43"},
	}
	canonical, err := idempotency.Canonical(method, path, r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"method":"POST","path":"/payments","request":{"amountCents":12000,"currency":"KRW","customerId":"cus-1",` +
		`"description":"café \"42\" </>","metadata":{"Order":"43","order":"42"},"paymentMethod":"pm_ok"}}`
	if string(canonical) != want {
		t.Fatalf("canonical form is\n%s\nwant\n%s", canonical, want)
	}
	f, err := idempotency.FingerprintOf(method, path, r)
	if err != nil {
		t.Fatal(err)
	}
	if f.String() != hex.EncodeToString(f[:]) ||
		f.String() != "20c54490f1345b06e584a02541d4a29e80fab4778a46db34e672fba056c05176" {
		t.Fatalf("fingerprint is %s", f)
	}
}

func TestWhatHasNoCanonicalFormHasNoFingerprint(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]any{"not JSON": func() {}, "not UTF-8": "\xff"} {
		if _, err := idempotency.FingerprintOf(method, path, request); err == nil {
			t.Errorf("%s: has a fingerprint", name)
		}
	}
	for _, r := range []payment.CreateRequest{{CustomerID: "\xff"}, {Description: "\xff"},
		{Metadata: map[string]string{"\xff": ""}}} {
		if _, err := idempotency.FingerprintOf(method, path, r); err == nil {
			t.Errorf("%+v has a fingerprint", r)
		}
	}
	for _, at := range [][2]string{{"\xff", path}, {method, "\xff"}} {
		if _, err := idempotency.FingerprintOf(at[0], at[1], payment.CreateRequest{}); err == nil {
			t.Errorf("%q has a fingerprint", at)
		}
	}
}

// The canonical form of what Validate accepts is that of RFC 8785, as the reference implementation writes it.
func FuzzCanonical(f *testing.F) {
	f.Add("cus-1", int64(12000), "a\u00e9\n\"\\/<&>\u2028\U0001f4b3", "order", "42", "A.b", "\u007f")
	f.Add("cus-1", int64(999_999_999_999), "", "b", "", "a", "\ufeff")
	f.Fuzz(func(t *testing.T, customer string, amount int64, text, name1, value1, name2, value2 string) {
		r := payment.CreateRequest{
			CustomerID: customer, AmountCents: payment.AmountMinor(amount), Currency: "USD", Description: text,
			Metadata: map[string]string{name1: value1, name2: value2},
		}
		if !utf8.ValidString(text) || !utf8.ValidString(value1) || !utf8.ValidString(value2) || r.Validate() != nil {
			if got, err := idempotency.Canonical(method, path, r); err == nil && !stdjson.Valid(got) {
				t.Fatalf("not even JSON: %s", got)
			}
			return
		}
		for what, request := range map[string]any{path: r, path +
			"/pay_1/refunds": payment.RefundRequest{AmountCents: r.AmountCents, Reason: text}} {
			if refund, ok := request.(payment.RefundRequest); ok && refund.Validate() != nil {
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

func BenchmarkFingerprint(b *testing.B) {
	r := payment.CreateRequest{
		CustomerID: "cus-1", AmountCents: 12000, Currency: "KRW", PaymentMethod: "pm_ok",
		Description: "an order of two", Metadata: map[string]string{"order": "42"},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := idempotency.FingerprintOf(method, path, r); err != nil {
			b.Fatal(err)
		}
	}
}
