package payment

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDecimalWritesTheMajorUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		currency Currency
		minor    AmountMinor
		want     string
	}{
		{"KRW", 0, "0"}, {"JPY", 1, "1"}, {"KRW", 12, "12"}, {"KRW", 123, "123"}, {"KRW", 12000, "12000"},
		{"KRW", MaxAmount, "999999999999"},
		{"USD", 0, "0.00"}, {"USD", 1, "0.01"}, {"USD", 10, "0.10"}, {"USD", 99, "0.99"}, {"USD", 100, "1.00"},
		{"EUR", 105, "1.05"}, {"USD", 12000, "120.00"}, {"USD", MaxAmount, "9999999999.99"},
		{"KWD", 0, "0.000"}, {"KWD", 1, "0.001"}, {"KWD", 10, "0.010"}, {"KWD", 999, "0.999"}, {"KWD", 1000, "1.000"},
		{"BHD", 12345, "12.345"}, {"KWD", MaxAmount, "999999999.999"},
	} {
		if got := c.currency.Decimal(c.minor); got != c.want {
			t.Errorf("%d %s is %s, want %s", c.minor, c.currency, got, c.want)
		}
	}
}

func TestDecimalLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		currency := rapid.SampledFrom([]Currency{"KRW", "USD", "KWD"}).Draw(t, "currency")
		minor := AmountMinor(rapid.Int64Range(int64(MinAmount), int64(MaxAmount)).Draw(t, "minor"))
		text := currency.Decimal(minor)
		digits, _ := currency.MinorDigits()
		whole, fraction, point := strings.Cut(text, ".")
		if point != (digits > 0) || len(fraction) != digits || len(whole) > 1 && whole[0] == '0' || whole == "" {
			t.Fatalf("%d %s is written %s", minor, currency, text)
		}
		if back, err := strconv.ParseInt(whole+fraction, 10, 64); err != nil || AmountMinor(back) != minor {
			t.Fatalf("%d %s is written %s", minor, currency, text)
		}
	})
}

// ISO 4217, list one. The codes are those that people get wrong, and some of each kind.
func TestMinorDigitsAreThoseOfISO4217(t *testing.T) {
	t.Parallel()
	for digits, codes := range map[int]string{
		0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
		2: "AED AUD BRL CAD CHF CNY CRC CZK DKK EGP EUR GBP HKD HUF IDR INR IRR KPW LAK LBP MGA MMK MRU MXN MYR NGN NOK NZD PHP " +
			"PKR PLN RON RSD RUB SAR SEK SGD SLE STN SYP THB TRY TWD TZS UAH USD UYU UZS VED VES XCD XCG YER ZAR ZMW ZWG",
		3: "BHD IQD JOD KWD LYD OMR TND",
	} {
		for code := range strings.FieldsSeq(codes) {
			if got, ok := Currency(code).MinorDigits(); !ok || got != digits {
				t.Errorf("%s has %d digits (%t), want %d", code, got, ok, digits)
			}
		}
	}
}

// ISO 4217, list one, as of 2026: none of its currencies is missing, and there is no other.
func TestThereAreAsManyCurrenciesAsInISO4217(t *testing.T) {
	t.Parallel()
	got := map[int]int{}
	for n := range 26 * 26 * 26 {
		code := string([]byte{'A' + byte(n/26/26), 'A' + byte(n/26%26), 'A' + byte(n%26)})
		if digits, ok := Currency(code).MinorDigits(); ok {
			got[digits]++
		}
	}
	if diff := cmp.Diff(map[int]int{0: 16, 2: 132, 3: 7}, got); diff != "" {
		t.Errorf("currencies by their digits (-want +got):\n%s", diff)
	}
}

func TestWhatIsNoMoneyIsRefused(t *testing.T) {
	t.Parallel()
	for kind, codes := range map[string][]string{
		"given up": {"ANG", "BGN", "BYR", "CUC", "DEM", "EEK", "HRK", "LTL", "MRO", "SLL", "STD", "VEF", "ZMK",
			"ZWL"},
		"metals":     {"XAG", "XAU", "XPD", "XPT"},
		"no country": {"XDR", "XSU", "XTS", "XUA", "XXX"},
		"funds":      {"BOV", "CHE", "CHW", "CLF", "COU", "MXV", "USN", "UYI", "UYW"},
		"misspelt": {"", "usd", "Usd", "US", "USDX", "US ", " US", "U D", "$$$", "840", "\x00\x00\x00", "한", "BTC",
			"USD UYU", "AED AFN", " "},
	} {
		for _, code := range codes {
			if digits, ok := Currency(code).MinorDigits(); ok {
				t.Errorf("%s: %q has %d digits", kind, code, digits)
			}
		}
	}
}
