package payment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/idempotency"
)

const visa = "4242424242424242"

// asking is a request that nothing is wrong with, after a change.
func asking(change func(*CreateRequest)) CreateRequest {
	r := CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok"}
	change(&r)
	return r
}

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("name-%d", i)] = "value"
	}
	return m
}

func accepted() map[string]func(*CreateRequest) {
	return map[string]func(*CreateRequest){
		"nothing special":             func(*CreateRequest) {},
		"smallest amount":             func(r *CreateRequest) { r.AmountCents = 1 },
		"largest amount":              func(r *CreateRequest) { r.AmountCents = 999_999_999_999 },
		"currency without minor":      func(r *CreateRequest) { r.Currency = "KRW" },
		"currency with three":         func(r *CreateRequest) { r.Currency = "KWD" },
		"no payment method":           func(r *CreateRequest) { r.PaymentMethod = "" },
		"a token of Stripe's":         func(r *CreateRequest) { r.PaymentMethod = "pm_1NXWPnFTKLoHxW" },
		"longest payment method":      func(r *CreateRequest) { r.PaymentMethod = "pm_" + strings.Repeat("x", 61) },
		"longest customer":            func(r *CreateRequest) { r.CustomerID = strings.Repeat("c", 64) },
		"all characters of customers": func(r *CreateRequest) { r.CustomerID = "aZ0._:-" },
		"longest description":         func(r *CreateRequest) { r.Description = strings.Repeat("한", 500) },
		"longest reference":           func(r *CreateRequest) { r.Reference = strings.Repeat("한", 100) },
		"lines and tabs":              func(r *CreateRequest) { r.Description = "two\nlines\tand a tab" },
		"digits that are no card":     func(r *CreateRequest) { r.Description = "4242424242424241" },
		"most metadata":               func(r *CreateRequest) { r.Metadata = many(20) },
		"longest metadata": func(r *CreateRequest) {
			r.Metadata = map[string]string{strings.Repeat("n", 40): strings.Repeat("é", 200)}
		},
		"all characters of names": func(r *CreateRequest) { r.Metadata = map[string]string{"aZ0_.-": ""} },
	}
}

func TestRequestsThatAreTaken(t *testing.T) {
	t.Parallel()
	for name, change := range accepted() {
		r := asking(change)
		if bad := r.Validate(); bad != nil {
			t.Errorf("%s: %v", name, bad)
		}
		if r.PaymentMethod == "" {
			t.Errorf("%s: no default was applied", name)
		}
	}
	r := asking(func(r *CreateRequest) { r.PaymentMethod = "" })
	if r.Validate(); r.PaymentMethod != DefaultPaymentMethod {
		t.Errorf("the default is %q", r.PaymentMethod)
	}
}

// refusedRequests are grouped by the member that is to blame.
func refusedRequests() map[string]map[string]func(*CreateRequest) {
	type changes = map[string]func(*CreateRequest)
	return map[string]changes{
		"/customerId": {
			"none":          func(r *CreateRequest) { r.CustomerID = "" },
			"65 characters": func(r *CreateRequest) { r.CustomerID = strings.Repeat("c", 65) },
			"space":         func(r *CreateRequest) { r.CustomerID = "cus 1" },
			"slash":         func(r *CreateRequest) { r.CustomerID = "cus/1" },
			"newline":       func(r *CreateRequest) { r.CustomerID = "cus-1\n" },
			"not ASCII":     func(r *CreateRequest) { r.CustomerID = "çus" },
			"card number":   func(r *CreateRequest) { r.CustomerID = visa },
		},
		"/amountCents": {
			"zero":           func(r *CreateRequest) { r.AmountCents = 0 },
			"negative":       func(r *CreateRequest) { r.AmountCents = -1 },
			"one too many":   func(r *CreateRequest) { r.AmountCents = 1_000_000_000_000 },
			"largest of all": func(r *CreateRequest) { r.AmountCents = 1<<63 - 1 },
		},
		"/currency": {
			"none":       func(r *CreateRequest) { r.Currency = "" },
			"lower case": func(r *CreateRequest) { r.Currency = "usd" },
			"not in use": func(r *CreateRequest) { r.Currency = "DEM" },
			"metal":      func(r *CreateRequest) { r.Currency = "XAU" },
		},
		"/paymentMethod": {
			"no token":    func(r *CreateRequest) { r.PaymentMethod = "visa" },
			"prefix only": func(r *CreateRequest) { r.PaymentMethod = "pm_" },
			"hyphen":      func(r *CreateRequest) { r.PaymentMethod = "pm_a-b" },
			"too long":    func(r *CreateRequest) { r.PaymentMethod = "pm_" + strings.Repeat("x", 62) },
			"newline":     func(r *CreateRequest) { r.PaymentMethod = "pm_ok\n" },
			"card number": func(r *CreateRequest) { r.PaymentMethod = "pm_" + visa },
		},
		"/description": {
			"501 characters": func(r *CreateRequest) { r.Description = strings.Repeat("한", 501) },
			"control":        func(r *CreateRequest) { r.Description = "bell\a" },
			"return":         func(r *CreateRequest) { r.Description = "line\r\n" },
			"NUL":            func(r *CreateRequest) { r.Description = "\x00" },
			"card number":    func(r *CreateRequest) { r.Description = "card 4242 4242 4242 4242, thanks" },
		},
		"/reference": {
			"101 characters": func(r *CreateRequest) { r.Reference = strings.Repeat("한", 101) },
			"newline":        func(r *CreateRequest) { r.Reference = "order\n42" },
			"delete":         func(r *CreateRequest) { r.Reference = "order\x7f" },
			"C1 control":     func(r *CreateRequest) { r.Reference = "order\u0085" },
			"card number":    func(r *CreateRequest) { r.Reference = visa },
		},
		"/metadata": {
			"21 entries": func(r *CreateRequest) { r.Metadata = many(21) },
			"name too long": func(r *CreateRequest) {
				r.Metadata = map[string]string{strings.Repeat("n",
					41): ""}
			},
			"empty name":          func(r *CreateRequest) { r.Metadata = map[string]string{"": ""} },
			"name with a slash":   func(r *CreateRequest) { r.Metadata = map[string]string{"a/b": ""} },
			"name with a tilde":   func(r *CreateRequest) { r.Metadata = map[string]string{"a~b": ""} },
			"name with a colon":   func(r *CreateRequest) { r.Metadata = map[string]string{"a:b": ""} },
			"card number as name": func(r *CreateRequest) { r.Metadata = map[string]string{visa: ""} },
		},
		"/metadata/order": {
			"value too long": func(r *CreateRequest) {
				r.Metadata = map[string]string{"order": strings.Repeat("é",
					201)}
			},
			"value with control":   func(r *CreateRequest) { r.Metadata = map[string]string{"order": "\x1b[0m"} },
			"value with a card in": func(r *CreateRequest) { r.Metadata = map[string]string{"order": "no. " + visa} },
		},
	}
}

func TestRequestsThatAreRefusedNameTheMember(t *testing.T) {
	t.Parallel()
	for pointer, cases := range refusedRequests() {
		for name, change := range cases {
			r := asking(change)
			bad := r.Validate()
			if len(bad) == 0 {
				t.Errorf("%s, %s: taken", pointer, name)
			}
			for _, b := range bad {
				if *b.Pointer != pointer || b.Detail == "" || strings.Contains(b.Detail, visa) {
					t.Errorf("%s, %s: refused with %+v", pointer, name, b)
				}
			}
		}
	}
}

func TestEverythingThatIsWrongIsListed(t *testing.T) {
	t.Parallel()
	r := CreateRequest{PaymentMethod: "visa", Reference: "\x00", Description: "\x00",
		Metadata: map[string]string{"order": "\x00", "a/b": ""}}
	got := map[string]bool{}
	for _, b := range r.Validate() {
		got[*b.Pointer] = true
	}
	want := []string{"/amountCents", "/currency", "/customerId", "/description", "/metadata", "/metadata/order",
		"/paymentMethod", "/reference"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Error(diff)
	}
}

// A client that sends the same body again gets the same bytes. The order of a map differs from run to run.
func TestWhatIsWrongIsListedInOneOrder(t *testing.T) {
	t.Parallel()
	r := asking(func(r *CreateRequest) { r.Metadata = many(20) })
	for name := range r.Metadata {
		r.Metadata[name] = "\x00"
	}
	first := r.Validate()
	for range 10 {
		if diff := cmp.Diff(first, r.Validate()); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestRefundRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r   RefundRequest
		bad string
	}{
		"whole rest":            {RefundRequest{}, ""},
		"a part":                {RefundRequest{AmountCents: 1}, ""},
		"the largest part":      {RefundRequest{AmountCents: MaxAmount}, ""},
		"with a reason":         {RefundRequest{Reason: strings.Repeat("한", 200)}, ""},
		"negative":              {RefundRequest{AmountCents: -1}, "/amountCents"},
		"too much":              {RefundRequest{AmountCents: MaxAmount + 1}, "/amountCents"},
		"a long reason":         {RefundRequest{Reason: strings.Repeat("한", 201)}, "/reason"},
		"control in the reason": {RefundRequest{Reason: "\x00"}, "/reason"},
		"a card in the reason":  {RefundRequest{Reason: visa}, "/reason"},
	} {
		bad := c.r.Validate()
		if (len(bad) == 0) != (c.bad == "") || len(bad) > 0 && *bad[0].Pointer != c.bad {
			t.Errorf("%s: %v", name, bad)
		}
	}
}

// A client may name its payments by the time, in whatever form. The first of these instants pass Luhn in milliseconds.
func TestPaymentsThatAreNamedByTheTimeAreTaken(t *testing.T) {
	t.Parallel()
	const hour = 3_600_000
	for n := range int64(2_000) {
		at := time.UnixMilli(1_700_000_000_004 + n*hour + n%10).UTC()
		for _, stamp := range []string{
			strconv.FormatInt(at.UnixMilli(), 10), strconv.FormatInt(at.UnixMicro(), 10),
			strconv.FormatInt(at.UnixNano(), 10),
			at.Format("20060102150405"), at.Format(time.RFC3339Nano),
		} {
			if _, err := idempotency.ParseKey("order-" + stamp); err != nil {
				t.Fatalf("order-%s: %v", stamp, err)
			}
			r := asking(func(r *CreateRequest) {
				r.CustomerID, r.Reference, r.Description = "cus-"+stamp, "order "+stamp, "ordered "+stamp
				r.Metadata = map[string]string{"at": stamp, "at-" + strings.ReplaceAll(stamp, ":", ""): "1"}
			})
			if bad := r.Validate(); bad != nil {
				t.Fatalf("%s: %v", stamp, bad)
			}
		}
	}
}
