package payments

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// pspBooks are a provider's books of one payment.
type pspBooks struct {
	refunds  map[string]gateway.Record // by id, as they are now
	disputes map[string]gateway.DisputeStatus
}

func (b pspBooks) returned() (sum int64) {
	for _, r := range b.refunds {
		if r.Executed() {
			sum += r.AmountMinor
		}
	}
	return sum
}

func (b pspBooks) disputed() (sum int64) {
	for _, status := range b.disputes {
		if status.Takes() {
			sum += 100
		}
	}
	return sum
}

// drawLife draws what becomes of a payment, and all records of it in the order in which it happens.
func (s *shop) drawLife(random *rand.Rand, p payment.Payment) (pspBooks, []gateway.Record) {
	psp := pspBooks{map[string]gateway.Record{}, map[string]gateway.DisputeStatus{}}
	var told []gateway.Record
	var held int64
	tell := func(r gateway.Record) {
		psp.refunds[r.ID] = r
		told = append(told, r)
	}
	failed := func(r gateway.Record) gateway.Record {
		r.Status, r.DeclineCode = gateway.StatusDeclined, "expired_card"
		return r
	}
	for n := range 12 {
		switch random.IntN(3) {
		case 0: // ours, of a part or of all that neither the PSP nor we know to be gone
			rest := min(12000-psp.returned()-psp.disputed(), 12000-held)
			amount := []int64{700, rest}[random.IntN(2)]
			if amount < 1 || amount > rest {
				continue
			}
			held += amount
			ours := s.refunding(fmt.Sprintf("refund-%09d", n), p, payment.AmountMinor(amount))
			ours.succeeded()
			tell(ours.record)
			if random.IntN(3) == 0 {
				tell(failed(ours.record))
			}
		case 1: // somebody else's
			if psp.returned()+psp.disputed()+500 > 12000 {
				continue
			}
			r := byOthers(gateway.RefundObject, p.PSPChargeID, fmt.Sprint("re_", n), "pending", 500)
			for _, r.Status = range []string{"pending", "succeeded"} {
				tell(r)
			}
			if random.IntN(3) == 0 {
				tell(failed(r))
			}
		case 2:
			id := fmt.Sprint("dp_", n)
			for i, status := range []gateway.DisputeStatus{gateway.Inquiry, gateway.NeedsResponse,
				gateway.UnderReview, []gateway.DisputeStatus{gateway.Won, gateway.Lost}[random.IntN(2)]} {
				if i > 0 && random.IntN(5) == 0 {
					break
				}
				psp.disputes[id] = status
				told = append(told, disputeOf(p.PSPChargeID, id, status, 100))
			}
		}
	}
	return psp, told
}

// Refunds of ours and of others, parts and wholes, that succeed, are declined or come back, and disputes: their records
// arrive late, twice, in any order and from any source. In the end, our books are those of the PSP.
func TestAnyMixOfWhatBecomesOfAPaymentEndsAsThePSPsBooks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{})
			random := rand.New(rand.NewPCG(seed, 45))
			p := s.charging("paid-00000000001").paidFor()
			psp, told := s.drawLife(random, p)
			told = append(told, told...)
			random.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
			for _, r := range told {
				s.tells(judge.SourceWebhook, r, false)
			}
			shown, err := s.service.Payment(t.Context(), "acme", p.ID)
			if err != nil || int64(shown.Refunded) != psp.returned() || int64(shown.Disputed()) != psp.disputed() {
				t.Errorf("refunded %d and disputed %d, want %d and %d: %v", shown.Refunded, shown.Disputed(),
					psp.returned(), psp.disputed(), err)
			}
			for id, status := range psp.disputes {
				if got := s.texts("SELECT status FROM disputes WHERE psp_id = $1", id)[0]; got != string(status) {
					t.Errorf("%s is %s, want %s", id, got, status)
				}
			}
			left := 12000 - psp.returned() - psp.disputed()
			if _, err := s.refunds("refund-too-much-1", p, payment.AmountMinor(left+1)); err == nil {
				t.Errorf("%d are left, and one more is refunded", left)
			}
			s.wantDeadLetters()
		})
	}
}

// What is shown of the time of a change never goes back, also when the key is deleted.
func TestTimeOfTheLastChangeOutlivesTheKey(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	updated := func(id payment.ID) time.Duration {
		t.Helper()
		p, err := s.service.Payment(t.Context(), "acme", id)
		if err != nil {
			t.Fatal(err)
		}
		return p.Updated.Sub(p.Created)
	}
	for key, late := range map[string]bool{"order-0000000001": true, "order-0000000002": false} {
		g := s.charging(key)
		if late {
			s.exec("ALTER TABLE payments DISABLE TRIGGER USER")
			s.exec("UPDATE payments SET created_at = created_at - interval '2 hours' WHERE idempotency_key = '" +
				key + "'")
			s.exec("ALTER TABLE payments ENABLE TRIGGER USER")
		}
		id := payment.ID(g.lease.Subject)
		if took := updated(id); took != 0 {
			t.Errorf("%s is changed %v after it was made, and is processing", key, took)
		}
		g.succeeded()
		before := updated(id)
		g.deleted()
		after := updated(id)
		if before <= 0 || late && after < 2*time.Hour || !late && after != 0 {
			t.Errorf("%s is changed %v after it was made, and %v when its key is gone", key, before, after)
		}
	}
}
