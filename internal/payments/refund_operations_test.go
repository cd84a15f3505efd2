package payments

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/gateway/stripe"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// vouched is a payment of an operator's, under an id that only the operator names.
func (s *shop) vouched(key, id string) *stage {
	s.t.Helper()
	g := s.charging(key).lost()
	if err := g.executes(id); err != nil {
		s.t.Fatal(err)
	}
	return g
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
