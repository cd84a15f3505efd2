package payments

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// A page about what is not there says so. An error of the database would be another page.
func TestWhatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	nowhere := idempotency.StoredRef("acme", string(CreateOperation), "order-0000000002")
	nothing := idempotency.StoredRef("acme", string(RefundOperation), "refund-000000002")
	gone := g.lease.Execution()
	gone.Subject = uuid.Must(uuid.NewV7())
	for name, read := range map[string]func() error{
		"merchant of a payment": func() error {
			_, err := s.service.MerchantOf(t.Context(), "globex", PaymentID(g.lease.Subject()))
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
	if m, err := s.service.MerchantOf(t.Context(), "acme", PaymentID(g.lease.Subject())); err != nil ||
		m != g.key.Merchant {
		t.Errorf("a payment's merchant is %+v, %v", m, err)
	}
	if m, err := s.service.MerchantOfKey(t.Context(), g.lease.Ref()); err != nil || m != g.key.Merchant {
		t.Errorf("a key's merchant is %+v, %v", m, err)
	}
}

// The first read has gone to a server that has the row, and the second one to another that has not: there was a
// failover. That is no answer: neither that the payment is there, nor that it is not.
func TestRowThatIsGoneBetweenTwoReadsIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	_, err := s.service.readPayment(t.Context(), "acme", PaymentID(uuid.Must(uuid.NewV7())), s.service.readDurably)
	if !postgres.Unavailable(err) || errors.Is(err, ErrPaymentNotFound) {
		t.Errorf("payment: %v", err)
	}
	_, err = s.service.readRefund(t.Context(), "acme", RefundID(uuid.Must(uuid.NewV7())), s.service.readDurably)
	if !postgres.Unavailable(err) || errors.Is(err, ErrRefundNotFound) {
		t.Errorf("refund: %v", err)
	}
}
