package payments

import (
	"fmt"
	"strings"
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// What evidence comes to, by what it says and by what the key has become when it comes. Where a cell is empty, the
// records says what is known.

// said are the things that a record can say.
type said string

const (
	executed      said = "executed"
	executedTwice said = "executed under another id"
	refusedSaid   said = "refused"
	otherAmount   said = "of another amount"
)

func (w said) record(g *stage) gateway.Record {
	switch r := g.record; w {
	case executedTwice:
		return as(r.ID+"-2", r)
	case refusedSaid:
		return declinedAs(r, "no_money")
	case otherAmount:
		r.AmountMinor++
		return r
	case executed:
		return r
	}
	panic("unreachable")
}

// cell is what is wanted: the dead letter, or that the key is completed by it, or else that it is confirmed.
type cell struct {
	deadLetter deadletters.Kind
	completes  bool
}

// outcomes is the table: what a key has become → what the evidence says → what comes of it.
func outcomes() map[string]map[said]cell {
	resolves := map[said]cell{
		executed: {completes: true}, executedTwice: {completes: true}, refusedSaid: {completes: true},
		otherAmount: {deadLetter: deadletters.PSPContradicts},
	}
	known := map[said]cell{
		executed: {}, executedTwice: {deadLetter: deadletters.DuplicateMovement},
		refusedSaid: {deadLetter: deadletters.ContradictsCompleted},
		otherAmount: {deadLetter: deadletters.ContradictsCompleted},
	}
	notExecuted := map[said]cell{
		executed: {deadLetter: deadletters.LateAfterExpiry}, executedTwice: {deadLetter: deadletters.LateAfterExpiry},
		refusedSaid: {}, otherAmount: {deadLetter: deadletters.LateAfterExpiry},
	}
	return map[string]map[said]cell{
		"in_progress": resolves, "unknown": resolves, "failed_retryable": resolves,
		"succeeded": known, "expired succeeded": known, "renewed succeeded": known, "deleted succeeded": known,
		"expired failed": notExecuted, "renewed failed": notExecuted, "deleted failed": notExecuted,
		"declined": {
			executed:      {deadLetter: deadletters.ContradictsCompleted},
			executedTwice: {deadLetter: deadletters.ContradictsCompleted},
			refusedSaid:   {}, otherAmount: {deadLetter: deadletters.ContradictsCompleted},
		},
	}
}

// bring brings the key to where the table says.
func (s *stage) bring(to string) {
	switch to {
	case "in_progress":
	case "unknown":
		s.lost().windowPasses() // the scan leaves it alone before
	case "failed_retryable":
		s.failed()
	case "succeeded":
		s.succeeded()
	case "declined":
		s.declined()
	case "expired succeeded":
		s.succeeded().expired()
	case "expired failed":
		s.failed().expired()
	case "renewed succeeded":
		s.succeeded().renewed()
	case "renewed failed":
		s.failed().renewed()
	case "deleted succeeded":
		s.succeeded().deleted()
	case "deleted failed":
		s.failed().deleted()
	default:
		s.t.Fatalf("no way to %s", to)
	}
}

func TestEvidenceComesToWhatTheTableSays(t *testing.T) {
	t.Parallel()
	for _, source := range []judge.Source{judge.SourceWebhook, judge.SourceLookup, judge.SourceScan} {
		for _, what := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
			t.Run(string(source)+" of a "+string(what), func(t *testing.T) {
				t.Parallel()
				s := setupOn(t, &actor{})
				p := s.charging("paid-00000000001").paidFor()
				n := 0
				for status, row := range outcomes() {
					for says, want := range row {
						n++
						key := fmt.Sprintf("cell-%08d-%s", n, what)
						g := s.charging
						if what == gateway.RefundObject {
							g = func(key string) *stage { return s.refunding(key, p, 1) }
						}
						if source == judge.SourceScan && status == "in_progress" {
							continue // TestScanLeavesAloneWhatOthersAreAtWorkOn
						}
						stage := g(key)
						stage.bring(status)
						stage.wantCell(status+", "+string(says), source, says.record(stage), want)
					}
				}
			})
		}
	}
}

// paidFor completes the payment and reads it.
func (s *stage) paidFor() payment.Payment {
	s.t.Helper()
	s.succeeded()
	p, err := s.service.Payment(s.t.Context(), "acme", payment.ID(s.lease.Subject))
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// wantCell brings one piece of evidence and holds what comes of it against the table.
func (s *stage) wantCell(name string, source judge.Source, r gateway.Record, want cell) {
	s.t.Helper()
	before, deadLetters, lines := s.everything(), s.count("SELECT count(*) FROM dead_letters"), len(s.timeline())
	finding := s.evidenceBy(source, r)
	deadLetters = s.count("SELECT count(*) FROM dead_letters") - deadLetters
	switch {
	case want.completes:
		_, ok := finding.(Completed)
		row := s.row()
		if !ok || row.Status != idempotency.CompletedStatus || deadLetters != 0 || len(s.timeline()) != lines+1 {
			s.t.Fatalf("%s: %T, the key is %s with %d more lines and %d dead letters", name, finding, row.Status,
				len(s.timeline())-lines, deadLetters)
		}
		s.wantMoved(payment.Status(r.Status), r.ID)
	case want.deadLetter != "":
		kind, moved := finding.(DeadLettered).Kind, s.everything() != before
		// A lookup writes with it when the PSP is asked next.
		if asksAgain := source == judge.SourceLookup && strings.HasPrefix(name, "unknown, "); asksAgain && moved {
			s.wantStatus(idempotency.UnknownStatus, 1)
			s.wantMoved(payment.Processing, "")
			moved = false
		}
		if kind != want.deadLetter || deadLetters != 1 || moved {
			s.t.Fatalf("%s: dead letter %s, %d in all, moved: %v", name, kind, deadLetters, moved)
		}
	default:
		if _, ok := finding.(Confirmed); !ok || deadLetters != 0 {
			s.t.Fatalf("%s: %T, and %d dead letters", name, finding, deadLetters)
		}
		// A webhook leaves its trace in the timeline of a key that stands for the same still. Nothing else does.
		if traced := s.everything() != before; traced != (source == judge.SourceWebhook &&
			(name == "succeeded, executed" || name == "declined, refused")) {
			s.t.Fatalf("%s: traced %v:\n%s", name, traced, s.timeline())
		}
	}
}

// What is in other hands comes to them: the owner has the PSP's answer soon, the resolver asks for it. A scan that
// stepped in would only fence the owner.
func TestScanLeavesAloneWhatOthersAreAtWorkOn(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	for _, r := range []gateway.Record{g.record, otherAmount.record(g)} {
		before := s.everything()
		is[Confirmed](t, s.evidenceBy(judge.SourceScan, r))
		if s.everything() != before {
			t.Fatal("the scan has moved a key that is in progress")
		}
	}
	g.lost()
	is[Confirmed](t, s.evidenceBy(judge.SourceScan, g.record))
	g.wantStatus(idempotency.UnknownStatus, 1)
	s.wantDeadLetters()
	g.windowPasses()
	is[Completed](t, s.evidenceBy(judge.SourceScan, g.record))
}

// A lookup asks for the key that was sent, and for the object that was made for it. Another record is found by nobody
// else: a later walk may begin behind it.
func TestScanLeavesNothingAloneThatNoLookupFinds(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	r := g.record
	r.Key = "another-order-0001"
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, r))
	s.wantDeadLetters(contradicts(g, r.ID))
	g.wantStatus(idempotency.InProgressStatus, 1)
}

// The owner of the next generation of a key is at work on another payment.
func TestScanDoesNotLeaveAnEarlierGenerationAlone(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").failed().renewed()
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	s.wantDeadLetters("late_after_expiry record acme " + g.record.ID)
}

// wantTotals compares what refunds hold of a payment, and what of it the PSP has confirmed.
func (s *shop) wantTotals(p payment.Payment, held, confirmed int) {
	s.t.Helper()
	h := s.count("SELECT refund_held_minor FROM payments WHERE id = $1", p.ID)
	c := s.count("SELECT refunded_minor FROM payments WHERE id = $1", p.ID)
	if h != held || c != confirmed {
		s.t.Fatalf("%d held, %d confirmed; want %d and %d", h, c, held, confirmed)
	}
}

func TestEvidenceOfARefundKeepsTheTotals(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	lost := s.refunding("refund-000000001", p, 1000).lost()
	refused := s.refunding("refund-000000002", p, 2000).lost()
	released := s.refunding("refund-000000003", p, 4000).failed()
	s.wantTotals(p, 3000, 0)
	s.evidenceBy(judge.SourceWebhook, lost.record)
	s.wantTotals(p, 3000, 1000)
	s.evidenceBy(judge.SourceLookup, declinedAs(refused.record, "too_late"))
	s.wantTotals(p, 1000, 1000)
	s.evidenceBy(judge.SourceScan, released.record)
	s.wantTotals(p, 5000, 5000)
	retried := s.refunding("refund-000000004", p, 500).failed()
	s.wantTotals(p, 5000, 5000)
	retried.reserve(retried.again())
	s.wantTotals(p, 5500, 5000)
	s.evidenceBy(judge.SourceWebhook, retried.record)
	s.wantTotals(p, 5500, 5500)
	lost.wantMoved(payment.Succeeded, lost.record.ID)
	refused.wantMoved(payment.Declined, refused.record.ID)
	released.wantMoved(payment.Succeeded, released.record.ID)
}

// A refund that was given up has freed its share, and another one has taken it. Then the first turns out to have
// happened: there is no room for it in the payment, and nobody but an operator can make some.
func TestRefundThatComesToLightWhenItsShareIsGoneIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 8000).failed()
	rival := s.refunding("refund-000000002", p, 8000)
	before := s.everything()
	for range 2 {
		if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, g.record)); l.Kind != deadletters.RefundExceeds ||
			s.everything() != before {
			t.Fatalf("dead letter %s, moved %v", l.Kind, s.everything() != before)
		}
	}
	s.wantDeadLetters("refund_exceeds_payment refund record acme " + g.record.ID)
	s.wantTotals(p, 8000, 0)
	// What makes room lets it in.
	rival.failed()
	is[Completed](t, s.evidenceBy(judge.SourceOperator, g.record))
	g.wantStatus(idempotency.CompletedStatus, 1)
	s.wantTotals(p, 8000, 8000)
}

func TestLateOwnerOfARefundWhoseShareIsGoneIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 8000).swept().proven()
	s.refunding("refund-000000002", p, 8000).succeeded()
	before := s.everything()
	is[Pending](t, g.live(g.lease, g.movement, g.success()))
	if s.everything() != before {
		t.Fatal("something has moved")
	}
	s.wantDeadLetters("refund_exceeds_payment refund record acme " + g.record.ID)
}
