package idempotency

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"payonce/internal/cardnumber"
)

func TestKeysThatAreTaken(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d",
		"order-0000000042",                        // 16
		strings.Repeat("keys.", MaxKeyLength/5),   // 255
		`!"#$%&'()*+-./0123456789:;<=>?@AZ[\]^_`,  // everything printable,
		"`abcdefghijklmnopqrstuvwxyz{|}~",         // without space and comma
		`key"with"quotes-inside`,                  // only a leading one reads as RFC 8941
		"key@without-a-domain",                    // no dot and letters behind it
		"two@signs@example.com",                   // no address
		"order-42.g2-again",                       // .g2 is not the end
		"order-00000042.G2",                       // not the suffix
		"order-00000042.g",                        // no digits
		"order-00000000g2",                        // no dot
		"order-4242424242424241",                  // fails Luhn
		"9f86d081884c7d659a2feaa0c55ad015",        // a UUID without hyphens
		"order-1700000000004",                     // the time in milliseconds, which passes Luhn
		"00000000000000004321",                    // 20 digits are no card
		"abcdabcdabcdabcd",                        // four different characters
		"~~~~~~~~~~~~~~!a0",                       // from both ends of the table
		"12345678-1234-4242-8242-424242424242",    // a UUID whose digits group differently
		"order-0000000042\x7e",                    // ~, the last that is printable
		"order-0000000042\x21",                    // !, the first
		"somebody@localhost",                      // no dot
		"@example-domain.co",                      // nobody before the @
		"somebody@.example",                       // nothing before the dot
		"not-an-address@localhost.x",              // a domain ends in two letters at least
		"release-42@store.v17",                    // and in nothing but letters
		"https://shop.example/orders/42?try=1#%2", // whatever a client thinks of
	} {
		k, err := ParseKey(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
		} else if k.String() != s {
			t.Errorf("%q became %q", s, k)
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"",
		"order-000000042",                        // 15
		strings.Repeat("keys", MaxKeyLength/4+1), // 256
		"0000000000000000",                       // one character
		"abcabcabcabcabcabc",                     // three
		"--------\x60---@@",                      // three again
		"order 0000000042",                       // space
		"order-0000000042 ",                      // at the end
		" order-0000000042",                      // at the start
		"order,0000000042",                       // comma: two values of one header
		"order\t0000000042",                      // control
		"order-0000000042\n",                     // newline
		"order-0000000042\x00",                   // NUL
		"order-0000000042\x7f",                   // DEL
		"ördér-0000000042",                       // not ASCII
		"order-0000000042\xff",                   // not even UTF-8
		`"order-0000000042`,                      // reads as the quoted form
		"jane.doe@example.com",                   // an address
		"x@example-domain.co",                    // another
		"JANE.DOE@EXAMPLE.COM",                   // in capitals
		"4242424242424242",                       // a card number
		"order-4242424242424242",                 // one inside
		"4242-4242-4242-4242",                    // as printed
		"order-00000042.g2",                      // would meet the second generation of another key
		"order-00000042.g0",                      // reserved as a whole
		"order-00000042.g2.g3",                   // the end counts
		strings.Repeat("keys.", 49) + ".g9999",   // long
		"order-00000042.g99999999999999999999",   // no matter how many digits
	} {
		_, err := ParseKey(s)
		if !errors.Is(err, ErrKeyInvalid) {
			t.Errorf("%q: %v", s, err)
		} else if len(s) >= MinKeyLength && strings.Contains(err.Error(), s) {
			t.Errorf("the refusal repeats the value: %v", err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseKey(s)
		if err == nil != allowed(s) {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil {
			if !errors.Is(err, ErrKeyInvalid) || k != (Key{}) {
				t.Fatalf("%q: refused with %v, and key %q", s, err, k)
			}
			return
		}
		if again, err := ParseKey(k.String()); err != nil || again != k || k.String() != s {
			t.Fatalf("%q became %q, then %q (%v)", s, k, again, err)
		}
		if passThrough(k, 1) != s {
			t.Fatalf("%q goes to the PSP as %q", s, passThrough(k, 1))
		}
	})
}

// allowed says once more, without regular expressions, what ParseKey does.
func allowed(s string) bool {
	if len(s) < 16 || len(s) > 255 || s[0] == '"' || cardnumber.In(s) {
		return false
	}
	for _, c := range []byte(s) {
		if c < 0x21 || c > 0x7e || c == ',' {
			return false
		}
	}
	different := map[rune]bool{}
	for _, c := range s {
		different[c] = true
	}
	return len(different) >= 4 && !generationSuffix.MatchString(s) && !address.MatchString(s)
}

var (
	generationSuffix = regexp.MustCompile(`\.g[0-9]+$`)
	address          = regexp.MustCompile(`^[^@]+@[^@]+\.[A-Za-z]{2,}$`)
)

// Two different operations must never reach the PSP under one key: the PSP would take the second for a repetition.
// The second key is drawn from the first by what generations are told apart by.
func TestPassThroughKeysOfTwoGenerationsNeverCollide(t *testing.T) {
	t.Parallel()
	ends := rapid.SampledFrom([]string{"", ".g", ".g1", ".g2", ".g12", ".g2.g", ".g2.", "g2", "2", ".g2x"})
	generations := rapid.OneOf(rapid.SampledFrom([]int32{1, 2, 12}), rapid.Int32Min(1))
	taken := func(t *rapid.T, s string) Key {
		k, err := ParseKey(s)
		if err != nil {
			t.SkipNow()
		}
		return k
	}
	rapid.Check(t, func(t *rapid.T) {
		first := "order-0000000042" + ends.Draw(t, "end")
		one, other := taken(t, first), taken(t, first+ends.Draw(t, "further end"))
		g1, g2 := generations.Draw(t, "one generation"), generations.Draw(t, "other generation")
		p1, p2 := passThrough(one, g1), passThrough(other, g2)
		if (p1 == p2) != (one == other && g1 == g2) {
			t.Fatalf("%q generation %d is %q, %q generation %d is %q", one, g1, p1, other, g2, p2)
		}
	})
}

// What the PSP says about a key finds its way back to the row, whatever the client has called it.
func TestPassThroughKeyIsReadBackAsWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	printable := rapid.StringOfN(rapid.RuneFrom(nil,
		&unicode.RangeTable{R16: []unicode.Range16{{Lo: '!', Hi: '~', Stride: 1}}}), MinKeyLength, MaxKeyLength, -1)
	named := rapid.SampledFrom([]string{
		"order-0000000042", "order-0000000042.g", "order-0000000042.g2.", "order-000000.g2.gx",
		"0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d",
		strings.Repeat("keys.", MaxKeyLength/5),
	})
	generations := rapid.OneOf(rapid.SampledFrom([]int32{1, 2, 10, 1<<31 - 1}), rapid.Int32Min(1))
	rapid.Check(t, func(t *rapid.T) {
		key, err := ParseKey(rapid.OneOf(named, printable).Draw(t, "key"))
		if err != nil {
			t.SkipNow()
		}
		e := Execution{Ref: Ref{Key: key}, Generation: generations.Draw(t, "generation")}
		gotKey, gotGeneration, err := ParsePassThrough(e.PassThroughKey())
		if err != nil || gotKey != key || gotGeneration != e.Generation {
			t.Fatalf("generation %d of %q goes out as %q, and comes back as %d of %q, %v",
				e.Generation, key, e.PassThroughKey(), gotGeneration, gotKey, err)
		}
	})
}

func TestLeaseAndRecordNameTheSameExecution(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(ExpiredStatus)
	c := b.reservation()
	lease := is[Execute](t, b.retake(c, is[Free](t, b.reserve(c)))).Lease
	want := Execution{Ref: b.ref, LeaseID: c.LeaseID, Subject: c.Subject, Attempt: 1, Generation: 2}
	if lease.Execution() != want || b.row().Execution() != want || want.PassThroughKey() != lease.PassThroughKey() {
		t.Fatalf("the lease names %+v, the row %+v, want %+v", lease.Execution(), b.row().Execution(), want)
	}
}

func TestWhatWeNeverSentOnIsNoPassThroughKey(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "short", "jane.doe@example.com", "order 0000000042",
		"order-0000000042.g0", "order-0000000042.g1", // the first generation has no suffix
		"order-0000000042.g02", "order-0000000042.g2147483648", "order-0000000042.g99999999999999999999",
		"order-0000000042.g2.g3", "order-00000.g2", // a client's key neither ends so nor is so short
		strings.Repeat("keys", MaxKeyLength/4+1), strings.Repeat("keys", MaxKeyLength/4+1) + ".g2",
	} {
		key, generation, err := ParsePassThrough(s)
		if !errors.Is(err, ErrKeyInvalid) || key != (Key{}) || generation != 0 {
			t.Errorf("%q is generation %d of %q, %v", s, generation, key, err)
		}
	}
}
