package payments

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/postgres"
)

// paymentsOf are payments with the ids of these numbers.
func paymentsOf(numbers ...byte) (all []payment.Payment) {
	for _, n := range numbers {
		all = append(all, payment.Payment{ID: payment.ID{15: n}})
	}
	return all
}

func numbersOf(p Page) string {
	var all []string
	for _, each := range p.Payments {
		all = append(all, strconv.Itoa(int(each.ID[15])))
	}
	if p.Next != nil {
		all = append(all, "after "+strconv.Itoa(int(p.Next[15])))
	}
	return strings.Join(all, " ")
}

// The ids of the payments of a time are those that were made then, give or take a day of clocks that differ.
func TestIDsOfAFilterAreThoseOfItsTimes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 9, 5, 0, 0, time.UTC)
	later, earlier := at.Add(72*time.Hour), at.Add(-72*time.Hour)
	cursor, zero := payment.ID(FirstIDAt(at)), uuid.UUID{}
	for name, c := range map[string]struct {
		filter     Filter
		first, end uuid.UUID
	}{
		"all":            {Filter{}, zero, uuid.Max},
		"from a time on": {Filter{CreatedAfter: &at}, FirstIDAt(at.Add(-IDSkew)), uuid.Max},
		"up to a time":   {Filter{CreatedBefore: &at}, zero, FirstIDAt(at.Add(IDSkew))},
		"after a cursor": {Filter{Before: &cursor}, zero, FirstIDAt(at)},
		"both times": {Filter{CreatedAfter: &at, CreatedBefore: &later}, FirstIDAt(at.Add(-IDSkew)),
			FirstIDAt(later.Add(IDSkew))},
		"a nearer cursor":  {Filter{CreatedBefore: &later, Before: &cursor}, zero, FirstIDAt(at)},
		"a farther cursor": {Filter{CreatedBefore: &earlier, Before: &cursor}, zero, FirstIDAt(earlier.Add(IDSkew))},
	} {
		if first, end := c.filter.ids(); first != c.first || end != c.end {
			t.Errorf("%s: from %s to %s, want %s to %s", name, first, end, c.first, c.end)
		}
	}
}

// Each page begins where the one before it has ended, and the last one says so, also if it is full.
func TestListIsReadPageByPage(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.paid("order-0000000001")
	s.paid("order-0000000002")
	s.paid("order-0000000003")
	p := s.paid("order-0000000004")
	for _, key := range []string{"refund-000000001", "refund-000000002"} {
		asked := payment.RefundRequest{AmountCents: 1}
		if _, err := s.service.Refund(t.Context(), keyed(t, key), p.ID, asked); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int][]int{1: {1, 1, 1, 1}, 2: {2, 2}, 3: {3, 1}, 4: {4}, 5: {4}} {
		var sizes []int
		var ids [][]byte
		for f := (Filter{Limit: limit}); ; {
			page, err := s.service.PaymentsToTell(t.Context(), "acme", f)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(page.Payments))
			for _, each := range page.Payments {
				ids = append(ids, each.ID[:])
			}
			if f.Before = page.Next; page.Next == nil {
				break
			}
		}
		newestFirst := slices.IsSortedFunc(ids, func(a, b []byte) int { return bytes.Compare(b, a) })
		if !slices.Equal(sizes, want) || !newestFirst {
			t.Errorf("pages of %d have %v payments", limit, sizes)
		}
	}
	for limit, want := range map[int][]int{1: {1, 1}, 2: {2}, 3: {2}} {
		var sizes []int
		for f := (RefundFilter{Limit: limit}); ; {
			page, err := s.service.RefundsToTell(t.Context(), "acme", p.ID, f)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(page.Refunds))
			if f.Before = page.Next; page.Next == nil {
				break
			}
		}
		if !slices.Equal(sizes, want) {
			t.Errorf("pages of %d have %v refunds", limit, sizes)
		}
	}
}

// A payment is shown whole or not at all. What its metadata cannot be read from, nobody of ours has written.
func TestPaymentWithoutReadableMetadataIsNotShown(t *testing.T) {
	t.Parallel()
	s := setup(t)
	asked := order()
	asked.Metadata = map[string]string{"order": "7"}
	is[Final](t, s.create("order-0000000001", asked))
	page, err := s.service.PaymentsToTell(t.Context(), "acme", Filter{Limit: 1})
	if err != nil || len(page.Payments) != 1 || page.Payments[0].Metadata["order"] != "7" {
		t.Fatalf("listed as %+v, %v", page, err)
	}
	p := page.Payments[0]
	s.timePasses(`UPDATE payments SET metadata = '{"order": 7}'`)
	if got, err := s.service.Payment(t.Context(), "acme", p.ID); err == nil {
		t.Errorf("read as %+v", got)
	}
	if page, err = s.service.PaymentsToTell(t.Context(), "acme", Filter{Limit: 1}); err == nil {
		t.Errorf("listed as %+v", page)
	}
}

// The first read has gone to a server that has the row, and the second one to another that has not: there was a
// failover. That is no answer: neither that the payment is there, nor that it is not.
func TestRowThatIsGoneBetweenTwoReadsIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for name, m := range map[string]*movement{
		"payment": {merchant: payment.Merchant{Tenant: "acme"}, object: gateway.ChargeObject},
		"refund":  {merchant: payment.Merchant{Tenant: "acme"}, object: gateway.RefundObject},
	} {
		_, err := s.service.load(t.Context(), m, uuid.Max)
		if !postgres.Unavailable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	reads := 0
	_, err := readToTell(&s.service.Books, func(reading) (_ payment.Payment, final bool, err error) {
		if reads++; reads > 1 {
			err = ErrPaymentNotFound
		}
		return payment.Payment{}, false, err
	})
	if !postgres.Unavailable(err) {
		t.Errorf("a payment that was under way: %v", err)
	}
}

// A failover may undo a reservation whose commit nobody has acknowledged. A client is told of it durably, and of what
// was sent without a further commit.
func TestClientIsToldDurablyOfWhatIsNotFinal(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	over, paid := s.charging("order-0000000001"), s.charging("order-0000000002")
	over.paidFor()
	over.expired()
	p := paid.paidFor()
	refunded := s.refunding("refund-0000000001", p, 100).succeeded()
	alone, err := s.service.RefundsToTell(t.Context(), "acme", p.ID, RefundFilter{Limit: 9})
	if err != nil || len(alone.Refunds) != 1 || proxy.Sent("Durable") != 0 {
		t.Errorf("a page of what is over: %+v, %v", alone, err)
	}
	refunding, paying := s.refunding("refund-0000000002", p, 100), s.charging("order-0000000003")
	charge := func(id uuid.UUID) error {
		_, err := s.service.PaymentToTell(t.Context(), "acme", payment.ID(id))
		return err
	}
	refund := func(g *stage) error {
		_, err := s.service.RefundToTell(t.Context(), "acme", payment.RefundID(g.lease.Subject))
		return err
	}
	page := func(status payment.Status) error {
		_, err := s.service.PaymentsToTell(t.Context(), "acme", Filter{Limit: 9, Status: status})
		return err
	}
	key := func(ref idempotency.Ref) error {
		_, err := s.keys.FindToTell(t.Context(), ref)
		return err
	}
	unknown := paying.reservation.Ref
	unknown.Tenant = "globex"
	for name, c := range map[string]struct {
		tell    func() error
		durably int
		fails   error
	}{
		"a payment under way": {tell: func() error { return charge(paying.lease.Subject) }, durably: 1},
		"a payment":           {tell: func() error { return charge(paid.lease.Subject) }},
		"no payment":          {tell: func() error { return charge(uuid.Max) }, durably: 1, fails: ErrPaymentNotFound},
		"a refund under way":  {tell: func() error { return refund(refunding) }, durably: 1},
		"a refund":            {tell: func() error { return refund(refunded) }},
		"no refund": {tell: func() error {
			_, err := s.service.RefundToTell(t.Context(), "acme", payment.RefundID(uuid.Max))
			return err
		}, durably: 1, fails: ErrRefundNotFound},
		"a page with one under way": {tell: func() error { return page("") }, durably: 1},
		"a page":                    {tell: func() error { return page(payment.Succeeded) }},
		"refunds, one under way": {tell: func() error {
			_, err := s.service.RefundsToTell(t.Context(), "acme", p.ID, RefundFilter{Limit: 9})
			return err
		}, durably: 1},
		"refunds of no payment": {tell: func() error {
			_, err := s.service.RefundsToTell(t.Context(), "acme", payment.ID(uuid.Max), RefundFilter{Limit: 9})
			return err
		}, durably: 2, fails: ErrPaymentNotFound},
		"a key under way": {tell: func() error { return key(paying.reservation.Ref) }, durably: 1},
		"a completed key": {tell: func() error { return key(paid.reservation.Ref) }},
		"an expired key":  {tell: func() error { return key(over.reservation.Ref) }},
		"no key":          {tell: func() error { return key(unknown) }, durably: 1, fails: idempotency.ErrNoKey},
	} {
		before := proxy.Sent("Durable")
		err, sent := c.tell(), proxy.Sent("Durable")-before
		if !errors.Is(err, c.fails) || sent != c.durably {
			t.Errorf("%s: %d durable reads, %v", name, sent, err)
		}
	}
}
