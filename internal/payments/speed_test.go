package payments

import (
	"testing"
)

func BenchmarkValidate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		r := CreateRequest{
			CustomerID: "cus-1", AmountCents: 12000, Currency: "KRW", PaymentMethod: "pm_ok",
			Description: "an order of two", Metadata: map[string]string{"order": "42"},
		}
		if bad := r.Validate(); bad != nil {
			b.Fatal(bad)
		}
	}
}

func BenchmarkCreatedResponse(b *testing.B) {
	p := aPayment()
	p.Description, p.Metadata = "an order of two", map[string]string{"order": "42"}
	m := &charge{service: New(Config{PublicURL: "https://pay.example"}), payment: &p}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := m.conclude(verdict{status: Succeeded, pspID: "ch_1"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDeclinedResponse(b *testing.B) {
	p := aPayment()
	m := &charge{service: New(Config{PublicURL: "https://pay.example"}), payment: &p}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := m.conclude(verdict{status: Declined, pspID: "ch_1", code: "insufficient_funds"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPaymentID(b *testing.B) {
	id := aPayment().ID
	b.ReportAllocs()
	for b.Loop() {
		if got, err := ParsePaymentID(id.String()); err != nil || got != id {
			b.Fatal(err)
		}
	}
}
