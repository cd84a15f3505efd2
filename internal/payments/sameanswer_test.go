package payments

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgtest"
)

// twins are two shops in which the same happens: equal ids, equal times of creation. What they store can be compared to
// the byte.
func twins(t *testing.T) (live, late *shop, livePSP, latePSP *actor) {
	t.Helper()
	livePSP, latePSP = &actor{}, &actor{}
	live, late = setupOn(t, livePSP), setupOn(t, latePSP)
	for _, s := range []*shop{live, late} {
		n := byte(0)
		s.service.newID = func() (uuid.UUID, error) {
			n++
			id := uuid.MustParse("01890a5d-ac96-774b-bcce-b30209900000")
			id[15] = n
			return id, nil
		}
		for _, table := range []string{"payments", "refunds"} {
			s.exec("ALTER TABLE " + table + " ALTER COLUMN created_at SET DEFAULT '2026-11-20 09:05:00.12+00'")
		}
	}
	return live, late, livePSP, latePSP
}

// verdictsOfPSP are what it may say of a request, at once or later.
func verdictsOfPSP() map[string]func(http.ResponseWriter, gateway.Record) {
	return map[string]func(http.ResponseWriter, gateway.Record){"success": executes("psp_1"),
		"decline": refuses("psp_1", "insufficient_funds")}
}

// remembering has a PSP note what it is asked for before it breaks.
func remembering(asked *gateway.Record) func(http.ResponseWriter, gateway.Record) {
	return func(w http.ResponseWriter, r gateway.Record) {
		*asked = r
		breaks(w, r)
	}
}

// payInFull takes a payment that has everything a payment can have.
func payInFull(ctx context.Context, s *shop) (Answer, error) {
	return s.service.Create(ctx, keyed(s.t, "order-0000000042"), payment.CreateRequest{
		CustomerID: "cus-1", AmountCents: 999999999999, Currency: "KRW", PaymentMethod: "pm_ok",
		Description: "caf\u00e9 \"42\" <b> \u2028 \U0001f4b3\n",
		Metadata:    map[string]string{"b": "2", "a": "1", "A": "</script>"},
	})
}

func refundInPart(ctx context.Context, s *shop, id payment.ID) (Answer, error) {
	return s.service.Refund(ctx, keyed(s.t, "refund-000000042"), id,
		payment.RefundRequest{AmountCents: 4500, Reason: "caf\u00e9 <b>"})
}

func (s *shop) stored(operation idempotency.Operation, key string) idempotency.Response {
	s.t.Helper()
	row, err := s.keys.Find(s.t.Context(), idempotency.Ref{Tenant: "acme", Operation: operation,
		Key: keyed(s.t, key).Key})
	if err != nil || row.Response == nil {
		s.t.Fatalf("no response is stored: %v", err)
	}
	return *row.Response
}

func TestEvidenceStoresTheBytesOfTheLiveAnswer(t *testing.T) {
	t.Parallel()
	for name, verdict := range verdictsOfPSP() {
		t.Run("payment/"+name, func(t *testing.T) {
			t.Parallel()
			live, late, livePSP, latePSP := twins(t)
			var asked gateway.Record
			livePSP.onPost(verdict)
			latePSP.onPost(remembering(&asked))
			answer, err := payInFull(t.Context(), live)
			if err != nil {
				t.Fatal(err)
			}
			if lost, err := payInFull(t.Context(), late); err != nil {
				t.Fatal(err)
			} else {
				is[Pending](t, lost)
			}
			late.wantTwin(live, payment.CreateOperation, "order-0000000042", is[Final](t, answer).Response, name, asked)
		})
		t.Run("refund/"+name, func(t *testing.T) {
			t.Parallel()
			live, late, livePSP, latePSP := twins(t)
			var asked gateway.Record
			var answers []Answer
			for _, c := range []struct {
				s    *shop
				psp  *actor
				then func(http.ResponseWriter, gateway.Record)
			}{{live, livePSP, verdict}, {late, latePSP, remembering(&asked)}} {
				c.psp.onPost(executes("ch_1"))
				p := c.s.paid("order-0000000042")
				c.psp.onPost(c.then)
				answer, err := refundInPart(t.Context(), c.s, p.ID)
				if err != nil {
					t.Fatal(err)
				}
				answers = append(answers, answer)
			}
			is[Pending](t, answers[1])
			late.wantTwin(live, payment.RefundOperation, "refund-000000042", is[Final](t, answers[0]).Response, name,
				asked)
		})
	}
}

// wantTwin brings the verdict as evidence to the shop that has lost it, and compares what is stored there with the live
// shop's.
func (s *shop) wantTwin(
	live *shop, operation idempotency.Operation, key string, answered idempotency.Response, name string,
	asked gateway.Record,
) {
	s.t.Helper()
	record := as("psp_1", asked)
	record.Status = "succeeded"
	if name == "decline" {
		record = declinedAs(record, "insufficient_funds")
	}
	is[Completed](s.t, s.evidenceBy(judge.SourceWebhook, record))
	for what, response := range map[string]idempotency.Response{
		"stored by evidence": s.stored(operation, key), "stored live": live.stored(operation, key),
	} {
		if diff := cmp.Diff(answered, response); diff != "" {
			s.t.Errorf("%s differs (-answered live +it):\n%s", what, diff)
		}
	}
	if diff := cmp.Diff(s.resource(operation), live.resource(operation)); diff != "" {
		s.t.Errorf("the rows differ:\n%s", diff)
	}
}

// resource is the payment, or the refund, that a shop has last made.
func (s *shop) resource(operation idempotency.Operation) payment.Resource {
	s.t.Helper()
	table := map[idempotency.Operation]string{payment.CreateOperation: "payments",
		payment.RefundOperation: "refunds"}[operation]
	id := pgtest.Value[uuid.UUID](s.t, s.pool, "SELECT id FROM "+table+" ORDER BY id DESC LIMIT 1")
	var r payment.Resource
	var err error
	if operation == payment.RefundOperation {
		r, err = s.service.RefundByID(s.t.Context(), "acme", payment.RefundID(id))
	} else {
		r, err = s.service.Payment(s.t.Context(), "acme", payment.ID(id))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// A charge that is proven not to have happened, and then has: the client's retry hears of it and does not charge again.
func TestRetryAfterLateEvidenceIsAReplay(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000042").failed()
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	stored := *g.row().Response
	answer := is[Final](t, s.create("order-0000000042", order()))
	if !answer.Replayed || !cmp.Equal(answer.Response, stored) {
		t.Fatalf("the retry was answered %+v, resolved was %+v", answer, stored)
	}
	if posts, _ := psp.seen(); posts != 0 {
		t.Fatalf("the PSP was asked %d times", posts)
	}
	g.wantTimeline("owner in_progress>failed_retryable", "webhook failed_retryable>completed")
}
