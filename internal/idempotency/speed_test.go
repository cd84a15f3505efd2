package idempotency_test

import (
	"testing"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

func BenchmarkFingerprint(b *testing.B) {
	r := payments.CreateRequest{
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

func BenchmarkParseKey(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := idempotency.ParseKey("0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d"); err != nil {
			b.Fatal(err)
		}
	}
}
