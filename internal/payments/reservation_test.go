package payments

import (
	"testing"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/test/pgtest"
)

// reserveOnce sends tx 1 of a new key once, as reserve does, and wants it to win.
func (s *shop) reserveOnce(c idempotency.Reservation, m *movement) idempotency.Lease {
	s.t.Helper()
	r := reserving{service: s.service, reservation: c, movement: m}
	d, err := r.commit(s.t.Context(), r.send)
	if err != nil || r.doubt {
		s.t.Fatalf("acknowledgement lost: %v, error %v", r.doubt, err)
	}
	return is[idempotency.Execute](s.t, d).Lease
}

func (s *shop) reservation(operation idempotency.Operation, k Keyed) idempotency.Reservation {
	ref := idempotency.Ref{Tenant: k.Merchant.Tenant, Operation: operation, Key: k.Key}
	return s.keys.NewReservation(ref, idempotency.Fingerprint{1}, uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()))
}

// A reservation is sent again when nobody knows whether it was committed. Both may have arrived.
func TestReservationSentTwiceIsOnePayment(t *testing.T) {
	t.Parallel()
	s := setup(t)
	k := keyed(t, "order-0000000042")
	c := s.reservation(payment.CreateOperation, k)
	m := s.charge(k)
	first := s.reserveOnce(c, m)
	if again := s.reserveOnce(c, m); again != first {
		t.Fatalf("lease was %+v, is %+v", first, again)
	}
	// The second try returns no payment. The caller reads the stored row: what the first try returned may have been
	// rolled back.
	if n := s.count("SELECT count(*) FROM payments"); n != 1 || m.payment != nil {
		t.Fatalf("%d payments, in hand %v", n, m.payment)
	}
}

func TestReservationSentTwiceIsOneRefund(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]payment.RefundRequest{"a part": {AmountCents: 4500}, "the whole rest": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			k := keyed(t, "refund-000000042")
			p := s.paid("order-0000000042")
			c := s.reservation(payment.RefundOperation, k)
			m := newRefund(&s.service.Books, k.Merchant, p, asked)
			first := s.reserveOnce(c, m)
			if again := s.reserveOnce(c, m); again != first {
				t.Fatalf("lease was %+v, is %+v", first, again)
			}
			if n := s.count("SELECT count(*) FROM refunds"); n != 1 || m.refund != nil {
				t.Fatalf("%d refunds, in hand %v", n, m.refund)
			}
			if held, amount := s.count("SELECT refund_held_minor FROM payments"), s.count(
				"SELECT amount_minor FROM refunds"); held != amount {
				t.Fatalf("%d are held for a refund of %d", held, amount)
			}
		})
	}
}

// The payment may have changed, or belong to somebody else, by the time that its refund is written.
func TestRefundIsWrittenOnlyForTheTenantsSucceededPayment(t *testing.T) {
	t.Parallel()
	s := setup(t)
	k := keyed(t, "order-0000000042")
	m := s.movements(k)["refunds"]
	c := s.reservation(payment.RefundOperation, k)
	s.keyAlone(c)
	begin := func() {
		t.Helper()
		s.mustSend(m.begin(c)...)
	}
	right := m.payment.ID
	for _, wrong := range []columns{
		{"id": "gen_random_uuid()", "status": "'processing'", "psp_charge_id": "NULL"},
		{"id": "gen_random_uuid()", "tenant_id": "'globex'", "psp_charge_id": "'ch_of_globex'"},
	} {
		id := pgtest.Value[uuid.UUID](t, s.pool, paymentRow(wrong)+" RETURNING id")
		m.payment.ID = payment.ID(id)
		begin()
	}
	if n := s.count("SELECT count(*) FROM refunds"); n != 0 {
		t.Fatalf("%d refunds were written", n)
	}
	m.payment.ID = right
	begin()
	if n := s.count("SELECT count(*) FROM refunds"); n != 1 {
		t.Fatal("the refund was not written")
	}
}
