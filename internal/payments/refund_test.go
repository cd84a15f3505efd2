package payments

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/gateway/stripe"
	"payonce/internal/judge"
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

// vouched is a payment of an operator's, under an id that only the operator names.
func (s *shop) vouched(key, id string) *stage {
	s.t.Helper()
	g := s.charging(key).lost()
	if err := g.executes(id); err != nil {
		s.t.Fatal(err)
	}
	return g
}

func (s *stage) refund(key string) (Answer, error) {
	s.t.Helper()
	return s.service.Refund(s.t.Context(), keyed(s.t, key), payment.ID(s.lease.Subject),
		payment.RefundRequest{AmountCents: 100})
}

// An operator has named a charge while the PSP was silent. It may be anybody's: no money is returned from it before the
// PSP shows that it is this payment's, in everything that a charge is known by.
func TestNoMoneyIsReturnedFromAChargeThatOnlyAPersonNames(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onPost(executes("psp_refund"))
	g := s.vouched("order-0000000001", "psp_stranger")
	g.wantMoved(payment.Succeeded, payment.OperatorPSPID+"psp_stranger")
	answer, err := g.refund("refund-0000000001")
	if err != nil {
		t.Fatal(err)
	}
	is[NotExecuted](t, answer) // the PSP does not say whose it is: the client may ask again
	strangers := as("psp_stranger", g.record)
	for name, edit := range map[string]func(*gateway.Record){
		"reference": func(r *gateway.Record) { r.Reference = "order 42" },
		"amount":    func(r *gateway.Record) { r.AmountMinor++ },
		"currency":  func(r *gateway.Record) { r.Currency = "EUR" },
		"key":       func(r *gateway.Record) { r.Key = "order-0000000002" },
		"account":   func(r *gateway.Record) { r.Account = "globex" },
		"id":        func(r *gateway.Record) { r.ID = "psp_9" },
		"status":    func(r *gateway.Record) { *r = declinedAs(*r, "no_money") },
	} {
		r := strangers
		edit(&r)
		psp.onLookup(shows(r))
		if _, err := g.refund("refund-0000000001"); !errors.Is(err, ErrPaymentNotRefundable) {
			t.Errorf("a charge with another %s: %v", name, err)
		}
	}
	if posts, _ := psp.seen(); posts != 0 {
		t.Fatalf("%d refunds were sent", posts)
	}
	g.wantMoved(payment.Succeeded, payment.OperatorPSPID+"psp_stranger")
	s.wantDeadLetters()
}

// The PSP is asked once. Then the payment has the PSP's own id, like any other.
func TestVouchedPaymentIsRefundedOnceThePSPShowsItsCharge(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		named string
		says  func(...gateway.Record) http.HandlerFunc
	}{
		"by the id":                    {"psp_1", shows},
		"by the key":                   {"", byKeyAlone},
		"by the key, under another id": {"psp_9", byKeyAlone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp := &actor{}
			s := setupOn(t, psp)
			g := s.vouched("order-0000000001", row.named)
			psp.onLookup(row.says(as("psp_1", g.record)))
			var of string
			psp.onPost(func(w http.ResponseWriter, asked gateway.Record) {
				of = asked.ChargeID
				executes("psp_refund_"+asked.Key)(w, asked)
			})
			_, before := psp.seen()
			for _, key := range []string{"refund-0000000001", "refund-0000000002"} {
				answer, err := g.refund(key)
				if err != nil {
					t.Fatal(err)
				}
				if f := is[Final](t, answer); f.Response.Status != http.StatusCreated || of != "psp_1" {
					t.Fatalf("answer %+v, a refund of %s", f, of)
				}
				if _, now := psp.seen(); key == "refund-0000000001" {
					before = now
				} else if now != before {
					t.Error("the PSP was asked a second time")
				}
			}
			g.wantMoved(payment.Succeeded, "psp_1")
			s.wantDeadLetters()
		})
	}
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

// The operator has named another id than the PSP's own record has. Nobody but a person has named the first one, so the
// record is no second charge.
func TestRecordUnderAnotherIDThanAPersonsIsNoDuplicate(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.vouched("order-0000000001", "psp_stranger")
	is[Confirmed](t, s.evidenceBy(judge.SourceScan, g.record))
	g.wantMoved(payment.Succeeded, g.record.ID)
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, as("psp_again", g.record)))
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

// Stripe has nothing under the id that a person has named, and nothing under the key, either. The refund is refused for
// good, as long as the PSP answers. A dead letter's id is none that the PSP could know.
func TestRefundOfAVouchedPaymentThatStripeDoesNotKnowIsRefused(t *testing.T) {
	t.Parallel()
	const deadLetter = "0193b5f0-0000-7000-8000-000000000001"
	for name, row := range map[string]struct {
		id, asked string
		search    int
		final     bool
	}{
		"nothing":               {"pi_nobody", "search pi_nobody search", http.StatusOK, true},
		"a dead letter's id":    {deadLetter, "search", http.StatusOK, true},
		"a search that fails":   {"pi_nobody", "search pi_nobody search", http.StatusInternalServerError, false},
		"a read without answer": {"pi_silent", "search pi_silent search", http.StatusOK, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			p := s.paid("vouched-0000000001")
			s.exec("ALTER TABLE payments DISABLE TRIGGER payments_guard")
			s.exec("UPDATE payments SET psp_charge_id = 'operator:' || $1", row.id)
			var asked []string
			s.atStripe(func(w http.ResponseWriter, r *http.Request) {
				last := path.Base(r.URL.Path)
				switch asked = append(asked, last); last {
				case "search":
					w.WriteHeader(row.search)
					_, _ = io.WriteString(w, `{"object":"search_result","has_more":false,"data":[]}`)
				case "pi_silent":
					w.WriteHeader(http.StatusBadGateway)
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			})
			answer, err := s.service.Refund(t.Context(), keyed(t, "refund-00000000001"), p.ID, payment.RefundRequest{})
			got, refused := strings.Join(asked, " "), errors.Is(err, ErrPaymentNotRefundable)
			if got != row.asked || refused != row.final {
				t.Fatalf("%T %+v, %v, asked %q", answer, answer, err, got)
			}
			if !row.final {
				is[NotExecuted](t, answer)
			}
		})
	}
}

// atStripe has the shop's tenant be at a PSP that speaks as Stripe does.
func (s *shop) atStripe(serve http.HandlerFunc) {
	s.t.Helper()
	server := httptest.NewServer(serve)
	s.t.Cleanup(server.Close)
	psp, err := stripe.New(stripe.Config{URL: server.URL, Secret: "sk_test_x", Limits: gateway.DefaultLimits(),
		Now: time.Now, Installation: func() string { return "here" }})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(psp.Close)
	s.service.psps = gateway.PSPs{native.Name: psp}
}
