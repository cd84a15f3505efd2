package payments

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/test/pgtest"
)

// A refund has the id that the request was given, and is not taken without an id or a fingerprint.
func TestRefundIsTakenUnderItsIDAndFingerprintOnly(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("order-0000000001")
	k := keyed(t, "refund-0000000001")
	k.Subject = uuid.Must(uuid.NewV7())
	if _, err := s.service.Refund(t.Context(), k, p.ID, payment.RefundRequest{AmountCents: 1}); err != nil {
		t.Fatal(err)
	}
	if n := s.count("SELECT count(*) FROM refunds WHERE id = $1", k.Subject); n != 1 {
		t.Errorf("%d refunds have the given id", n)
	}
	before := s.everything()
	odd := payment.RefundRequest{AmountCents: 1, Reason: "\xff"}
	answer, err := s.service.Refund(t.Context(), keyed(t, "refund-0000000002"), p.ID, odd)
	if err == nil || !strings.HasPrefix(err.Error(), "fingerprint request") {
		t.Errorf("a refund without a fingerprint: %T, %v", answer, err)
	}
	s.service.newID = withoutID(1, s.service.newID)
	answer, err = s.service.Refund(t.Context(), keyed(t, "refund-0000000003"), p.ID,
		payment.RefundRequest{AmountCents: 1})
	if err == nil {
		t.Errorf("a refund without an id is answered %T", answer)
	}
	if s.everything() != before {
		t.Error("one of them was written")
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
		s.begin(m, c)
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

// Who asks for more than is left is told so: it is no failure of the database.
func TestRefundOfMoreThanIsLeftIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("order-0000000001")
	for _, amount := range []payment.AmountMinor{p.Amount + 1, p.Amount, 1, 0} {
		key := keyed(t, "refund-000000001-"+strconv.Itoa(int(amount)))
		answer, err := s.service.Refund(t.Context(), key, p.ID, payment.RefundRequest{AmountCents: amount})
		if _, given := answer.(Final); given != (amount == p.Amount) ||
			errors.Is(err, ErrRefundExceedsPayment) == given {
			t.Errorf("%d: %T, %v", amount, answer, err)
		}
	}
}

// The totals of a payment are those of its own refunds, and not of the tenant's others.
func TestTotalsAreOfThePaymentsOwnRefunds(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	one, two := s.charging("order-0000000001").paidFor(), s.charging("order-0000000002").paidFor()
	s.refunding("refund-0000000001", one, 100).succeeded()
	s.refunding("refund-0000000002", two, 300).succeeded()
	s.refunding("refund-0000000003", two, 1)
	s.wantTotals(one, 100, 100)
	s.wantTotals(two, 301, 300)
}

// shows is a PSP that has these charges by their ids, and lists none of them under a key.
func shows(records ...gateway.Record) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		i := slices.IndexFunc(records, func(r gateway.Record) bool { return r.ID == id })
		switch {
		case id == "charges":
			finds()(w, r)
		case i < 0:
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Write(records[i].Evidence())
		}
	}
}

func (s *stage) refund(key string) (Answer, error) {
	s.t.Helper()
	return s.service.Refund(s.t.Context(), keyed(s.t, key), payment.ID(s.lease.Subject),
		payment.RefundRequest{AmountCents: 100})
}

// byKeyAlone is a PSP that lists a charge under its key, and has none under the id that is asked for.
func byKeyAlone(records ...gateway.Record) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/charges") {
			finds(records...)(w, r)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}
}

// The PSP has a charge under the key that is not what was asked for.
func TestPaymentThatAnOperatorVouchedForIsNotRefundedHere(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("vouched-0000000001")
	s.exec("ALTER TABLE payments DISABLE TRIGGER payments_guard")
	s.exec("UPDATE payments SET psp_charge_id = 'operator:dead letter', amount_minor = 12001")
	_, err := s.service.Refund(t.Context(), keyed(t, "refund-00000000001"), p.ID, payment.RefundRequest{})
	if !errors.Is(err, ErrPaymentNotRefundable) {
		t.Fatal(err)
	}
}
