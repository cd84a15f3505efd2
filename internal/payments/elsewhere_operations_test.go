package payments

import (
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// The PSP's records disagree. An operator finds out, and nothing is counted twice.
func TestRefundMadeElsewhereThatThePSPTellsInTwoWaysIsACase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	told := func(status string, amount int64) gateway.Record {
		return byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", status, amount)
	}
	s.tells(judge.SourceWebhook, told("succeeded", 500), false)
	s.tells(judge.SourceWebhook, told("succeeded", 501), true)
	s.dismissed()
	s.tells(judge.SourceWebhook, told("declined", 500), false)
	s.exec("UPDATE refunds SET updated_at = updated_at - interval '2 minutes'")
	s.tells(judge.SourceScan, told("succeeded", 500), true)
	s.wantOutside(0)
	s.wantDeadLetters("moved_outside disagrees refund record acme re_1")
}

// The PSP's id of a refund is never taken for that of the payment, also if an operator says executed.
func TestOperatorsDecisionDoesNotNameAPaymentAfterItsRefund(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	g.remembers("pi_1")
	g.lost().windowPasses()
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, "pi_1", "re_1", "succeeded", 500), true)
	deadLetter := deadletters.DeadLetter{
		Kind: deadletters.MovedOutside, About: &deadletters.About{Tenant: "acme",
			Operation: string(payment.CreateOperation),
			Key:       "order-0000000001", Generation: 1},
		Evidence: []byte(s.texts("SELECT evidence::text FROM dead_letters")[0]),
	}
	if id := judge.DeadLetterOf(deadLetter).PSPID; id != "" {
		t.Errorf("the payment is named %s", id)
	}
}
