package payments

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// A caller without an error believes that there is no such payment, that the books are empty, or that a scan has
// nothing to look into.
func TestStatementThatFailsIsNoEmptyAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("order-0000000042")
	charge := s.charging("order-0000000043")
	pool, outage := pgtest.WithOutage(t, s.pool)
	s.service.db = postgres.Wrap(pool, 0)
	s.service.keys = idempotency.New(s.service.db, terms(), time.Now)
	unknown := charge.record
	unknown.Account = "nobody"
	for statement, ask := range map[string]func(ctx context.Context) error{
		"GetPayment": func(ctx context.Context) error { _, err := s.service.Payment(ctx, "acme", p.ID); return err },
		"FindRefund": func(ctx context.Context) error {
			_, err := s.service.RefundByID(ctx, "acme", payment.RefundID(p.ID))
			return err
		},
		"ListPayments": func(ctx context.Context) error {
			_, err := s.service.Payments(ctx, "acme", Filter{Limit: 1})
			return err
		},
		"ListRefunds": func(ctx context.Context) error {
			_, err := s.service.Refunds(ctx, "acme", p.ID, RefundFilter{Limit: 1})
			return err
		},
		"BookedMovements": func(ctx context.Context) error {
			_, err := s.service.Unexplained(ctx, native.Name, gateway.ChargeObject, "acme", gateway.Page{})
			return err
		},
		"ExecutionOfAnybody": func(ctx context.Context) error {
			_, err := s.service.ApplyRecord(ctx, judge.Record{Source: judge.SourceScan, Record: unknown})
			return err
		},
	} {
		outage.On("name: "+statement, 1)
		err := ask(t.Context())
		if err == nil || errors.Is(err, ErrPaymentNotFound) || errors.Is(err, ErrRefundNotFound) {
			t.Errorf("%s has failed, and the answer is %v", statement, err)
		}
	}
	outage.Over()

	// Several statements in one round trip are not sent at all if their time is over.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ask := range map[string]func() error{
		"MerchantOfKey": func() error { _, err := s.service.MerchantOfKey(ended, charge.reservation.Ref); return err },
		"LookUp":        func() error { _, err := s.service.LookUp(ended, charge.lease.Execution()); return err },
		"a lookup": func() error {
			_, err := s.service.LookUpDue(ended,
				idempotency.Due{Ref: charge.reservation.Ref, Generation: 1}, patient())
			return err
		},
		"Refund": func() error {
			_, err := s.service.Refund(ended, keyed(t, "refund-0000000042"), p.ID,
				payment.RefundRequest{AmountCents: 1})
			return err
		},
		"a refund that is refused": func() error {
			_, err := s.service.notRefundable(ended, charge.reservation.Ref, charge.reservation.Fingerprint)
			return err
		},
	} {
		if err := ask(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s could not be asked, and the answer is %v", name, err)
		}
	}
	if charge.wantStatus(idempotency.InProgressStatus, 1); strings.Join(charge.timeline(), " ") != "" {
		t.Errorf("the timeline is %v", charge.timeline())
	}
}

func TestCallReturnsTheErrorOfItsStatement(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("order-0000000001").paidFor()
	g, h := s.charging("order-0000000002"), s.refunding("refund-0000000001", p, 100)
	s.exec("ALTER TABLE payments RENAME TO gone; ALTER TABLE refunds RENAME TO gone_as_well")
	var found *movement
	var payment []*payment.Payment
	var written []bool
	calls := map[string]postgres.Call{
		"begin payments": s.service.beginPayments([]chargeReservation{{reservation: g.reservation,
			movement: g.again()}}, &payment),
		"record payments": s.service.recordPayments([]rowUpdate{{own: g.lease.Execution()}}, &written),
	}
	for kind, m := range map[string]*stage{"payment": g, "refund": h} {
		calls["find "+kind] = s.service.findMovement(m.reservation.Ref, new(m.lease.Subject), &found)
		calls[kind+" of a key"] = s.service.findMovement(m.reservation.Ref, nil, &found)
		for i, call := range m.again().resume(m.reservation, m.lease.Subject) {
			calls[fmt.Sprintf("resume %s, %d", kind, i)] = call
		}
	}
	for name, call := range calls {
		pgtest.WantReturned(t, s.service.db, name, call)
	}
}
