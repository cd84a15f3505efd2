package payments

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// A person reads that the merchant is not known only if that was asked.
func TestInquiryThatFailsIsNoEmptyAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	charge := s.charging("order-0000000043")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ask := range map[string]func() error{
		"MerchantOfKey": func() error { _, err := s.service.MerchantOfKey(ended, charge.reservation.Ref); return err },
		"LookUp":        func() error { _, err := s.service.LookUp(ended, charge.lease.Execution()); return err },
	} {
		if err := ask(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s could not be asked, and the answer is %v", name, err)
		}
	}
}

// A page of two databases has the newest of both, and says that there is more if either has more or if something did
// not fit.
func TestPagesOfTwoDatabasesAreOnePage(t *testing.T) {
	t.Parallel()
	next := func(n byte) *payment.ID { return &payment.ID{15: n} }
	for name, c := range map[string]struct {
		one, other Page
		want       string
	}{
		"both empty":         {Page{}, Page{}, ""},
		"one is empty":       {Page{Payments: paymentsOf(9, 8)}, Page{}, "9 8"},
		"all fits":           {Page{Payments: paymentsOf(9)}, Page{Payments: paymentsOf(8, 7)}, "9 8 7"},
		"one is too much":    {Page{Payments: paymentsOf(9, 7)}, Page{Payments: paymentsOf(8, 6)}, "9 8 7 after 7"},
		"the first has more": {Page{Payments: paymentsOf(9, 8, 7), Next: next(7)}, Page{}, "9 8 7 after 7"},
		"the other has more": {Page{}, Page{Payments: paymentsOf(9, 8, 7), Next: next(7)}, "9 8 7 after 7"},
	} {
		if got := numbersOf(c.one.Merge(c.other, 3)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A page about what is not there says so. An error of the database would be another page.
func TestWhatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	nowhere := idempotency.StoredRef("acme", string(payment.CreateOperation), "order-0000000002")
	nothing := idempotency.StoredRef("acme", string(payment.RefundOperation), "refund-000000002")
	gone := g.lease.Execution()
	gone.Subject = uuid.Must(uuid.NewV7())
	for name, read := range map[string]func() error{
		"merchant of a payment": func() error {
			_, err := s.service.MerchantOf(t.Context(), "globex", payment.ID(g.lease.Subject))
			return err
		},
		"merchant of a key": func() error { _, err := s.service.MerchantOfKey(t.Context(), nowhere); return err },
		"merchant of a key for a refund": func() error {
			_, err := s.service.MerchantOfKey(t.Context(), nothing)
			return err
		},
		"what the PSP has": func() error { _, err := s.service.LookUp(t.Context(), gone); return err },
	} {
		if err := read(); !errors.Is(err, ErrPaymentNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m, err := s.service.MerchantOf(t.Context(), "acme", payment.ID(g.lease.Subject)); err != nil ||
		m != g.key.Merchant {
		t.Errorf("a payment's merchant is %+v, %v", m, err)
	}
	if m, err := s.service.MerchantOfKey(t.Context(), g.lease.Ref); err != nil || m != g.key.Merchant {
		t.Errorf("a key's merchant is %+v, %v", m, err)
	}
}
