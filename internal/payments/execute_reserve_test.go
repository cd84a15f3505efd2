package payments

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
)

// ask is the reservation of a new request with the stage's key, and what came of it.
func (s *stage) ask() (idempotency.Decision, error) {
	c := s.keys.NewReservation(s.reservation.Ref, s.reservation.Fingerprint, uuid.Must(uuid.NewV7()),
		uuid.Must(uuid.NewV7()))
	d, _, err := s.service.reserve(s.t.Context(), c, s.again())
	return d, err
}

// After one lost acknowledgement, each statement that takes the key may find what this request itself has written, and
// that may not be durable yet. So from then on each of them waits for it.
func TestReservationInDoubtWaitsUntilItIsDurable(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range map[string]struct {
		bring  func(*stage)
		cut    []string
		sent   string // the statements that are sent, in order; those that must wait have a D
		decide func(idempotency.Decision) bool
	}{
		"nothing is lost": {bring: func(g *stage) { g.failed() }, sent: "ReserveKeys RetakeKey",
			decide: decided[idempotency.Execute]},
		"the reservation": {bring: func(g *stage) { g.failed() }, cut: []string{"ReserveKeys"},
			sent: "ReserveKeys RetakeKey+D", decide: decided[idempotency.Execute]},
		"the retake": {bring: func(g *stage) { g.failed() }, cut: []string{"RetakeKey"},
			sent: "ReserveKeys RetakeKey ReserveKeys+D RetakeKey+D", decide: decided[idempotency.Execute]},
		"both": {bring: func(g *stage) { g.failed() }, cut: []string{"ReserveKeys", "RetakeKey"},
			sent: "ReserveKeys RetakeKey+D ReserveKeys+D RetakeKey+D", decide: decided[idempotency.Execute]},
		"the reservation of what the PSP has forgotten": {cut: []string{"ReserveKeys"}, bring: func(g *stage) {
			g.failed().timePasses("UPDATE idempotency_keys SET reserved_at = reserved_at - $2::interval WHERE key = $1",
				g.key.Key.String(), terms().PSPMemory)
		}, sent: "ReserveKeys RetakeKey+D ReserveKeys+D", decide: decided[idempotency.Free]},
		"the reservation of what is executed": {bring: func(*stage) {}, cut: []string{"ReserveKeys"},
			sent: "ReserveKeys", decide: decided[idempotency.InProgress]},
	} {
		g := s.charging(key("order", name))
		c.bring(g)
		for _, query := range c.cut {
			proxy.On(query, pgproxy.CutBefore)
		}
		before := proxy.RoundTrips()
		d, err := g.ask()
		if err != nil || !c.decide(d) {
			t.Errorf("%s: %T, %v", name, d, err)
		}
		var sent []string
		for _, r := range sentSince(proxy, before, "ReserveKeys", "RetakeKey") {
			if slices.Contains(r, "Durable") {
				r[0] += "+D"
			}
			sent = append(sent, r[0])
		}
		if got := strings.Join(sent, " "); got != c.sent {
			t.Errorf("%s: sent %s", name, got)
		}
		// What is read of another request's reservation needs no wait.
		if n := len(sentSince(proxy, before, "Durable")); n != strings.Count(c.sent, "+D") {
			t.Errorf("%s: %d rounds wait", name, n)
		}
	}
}

func decided[Case idempotency.Decision](d idempotency.Decision) bool {
	_, is := d.(Case)
	return is
}

// A reservation that was written, and whose acknowledgement was lost, is read: once without waiting, and once more
// durably if it is our own. What is read of another request's needs no wait.
func TestReservationThatWasWrittenIsReadDurably(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range map[string]struct {
		query string
		cut   int // reads that are cut off, too
		read  string
		ours  bool
	}{
		"ours":                          {query: "ReserveKeys", read: "FindKey FindKey+D", ours: true},
		"ours, at the second read":      {query: "ReserveKeys", cut: 1, read: "FindKey FindKey FindKey+D", ours: true},
		"not known, as it is not read":  {query: "ReserveKeys", cut: 3, read: "FindKey FindKey FindKey"},
		"known, but what it is for not": {query: "GetPayment", read: "FindKey FindKey+D"},
	} {
		k := keyed(t, key("order", strings.ReplaceAll(name, ",", "")))
		proxy.On("ReserveKeys", pgproxy.DropAcknowledgement)
		if c.query != "ReserveKeys" {
			proxy.On(c.query, pgproxy.CutBefore)
		}
		if c.cut > 0 {
			proxy.OnNext(c.cut, "FindKey", pgproxy.CutBefore)
		}
		before := proxy.RoundTrips()
		m := s.charge(k)
		d, begun, err := s.service.reserve(t.Context(), s.reservation(payment.CreateOperation, k), m)
		if _, won := d.(idempotency.Execute); won != c.ours || (err == nil) != c.ours || (begun != nil) != c.ours {
			t.Errorf("%s: %T, %v", name, d, err)
		}
		var read []string
		for _, r := range sentSince(proxy, before, "FindKey") {
			if slices.Contains(r, "Durable") {
				r[0] += "+D"
			}
			read = append(read, r[0])
		}
		if got := strings.Join(read, " "); got != c.read {
			t.Errorf("%s: read %s", name, got)
		}
	}
}

// The client of a key whose lease is over is told that its outcome is unknown, also if the acknowledgement of that is
// lost.
func TestEndOfTheLeaseNeedsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, action := range map[string]pgproxy.Action{
		"cut": pgproxy.CutBefore, "lost": pgproxy.DropAcknowledgement,
	} {
		g := s.charging(key("order", name)).leaseEnds()
		event := proxy.On("ExpireLease", action)
		d, err := g.ask()
		if err != nil || !decided[idempotency.Unknown](d) {
			t.Errorf("%s: %T, %v", name, d, err)
		}
		event.Await(t)
		g.wantStatus(idempotency.UnknownStatus, 1)
	}
}

// A key that cannot be moved is an error of the database, and no decision. It does not say that the database is not
// available, either: to come again would not help the client.
func TestKeyThatTheDatabaseRefusesToMoveIsAnError(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	over := s.charging("order-whose-lease-is-over").leaseEnds()
	free := s.charging("order-that-has-failed").failed()
	s.failing(1<<30, oddError, "idempotency_keys", "UPDATE", "NEW.status = 'unknown' OR NEW.attempt > 1")
	for name, g := range map[string]*stage{"its lease is over": over, "it has failed": free} {
		before := s.everything()
		if d, err := g.ask(); err == nil || postgres.Unavailable(err) || s.everything() != before {
			t.Errorf("%s: %T, %v", name, d, err)
		}
	}
}

// The statements have said that the key is ours, and then the commit fails. To believe them would be to move money
// without a reservation.
func TestReservationThatIsNotCommittedMovesNoMoney(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("order-0000000001")
	s.failing(1<<30, diskFull, "refunds", "INSERT", "true")
	const key = "refund-000000001"
	answer, err := s.service.Refund(t.Context(), keyed(t, key), p.ID, payment.RefundRequest{AmountCents: 1})
	if ledger := s.ledger(key); !postgres.Unavailable(err) || strings.Contains(ledger, "succeeded") {
		t.Errorf("answered %T, %v; the PSP has %s", answer, err, ledger)
	}
	s.wantTotals(p, 0, 0)
}

// A request that could not take the key, because another one was faster, may take it when that one has failed.
func TestKeyThatIsFreeAgainIsTakenAndNotCalledForgotten(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").failed()
	held := proxy.On("RetakeKey", pgproxy.HoldBefore)
	decisions := make(chan idempotency.Decision, 1)
	go func() {
		d, err := g.ask()
		if err != nil {
			t.Error(err)
		}
		decisions <- d
	}()
	held.Await(t)
	m := g.again()
	g.live(g.reserve(m), m, gateway.NotExecuted{Reason: "no connection"})
	held.Release()
	if won := is[idempotency.Execute](t, <-decisions); won.Lease.Attempt != 3 {
		t.Errorf("it is attempt %d", won.Lease.Attempt)
	}
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
			m := newRefund(s.psp(), k.Merchant, p, asked)
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

// A retry knows its payment from the statement that has taken the key. To read it again would be a third round trip.
func TestRetakenPaymentIsNotReadAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").failed()
	m := g.again()
	g.reserve(m)
	if n := proxy.Sent("GetPayment"); n != 0 || m.subject() != g.lease.Subject {
		t.Errorf("the payment was read %d times, and is %s", n, m.subject())
	}
}

// A payment that the database refuses is an error, also when it is sent alone.
func TestPaymentThatTheDatabaseRefusesIsNotBegun(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	k := keyed(t, "order-0000000001")
	m := s.charge(k)
	m.wanted.AmountCents = 0
	if d, begun, err := s.service.reserve(t.Context(), s.reservation(payment.CreateOperation, k), m); err == nil ||
		begun != nil {
		t.Errorf("decided %T, of %v", d, begun)
	}
	if n := s.count("SELECT count(*) FROM idempotency_keys"); n != 0 {
		t.Errorf("%d keys are taken", n)
	}
}

// A key under which money has moved, and of which we know too little: while a dead letter is open about it, nobody
// executes it.

// forgets has the PSP forget its keys, as it does after a day. Its ledger stays.
func (s *shop) forgets() {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodDelete, s.pspURL+"/_keys", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("the PSP forgets: %v %v", response, err)
	}
	if err := response.Body.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// scans reads the PSP's whole ledger, as a scan does.
func (s *shop) scans() {
	s.t.Helper()
	for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
		page, err := s.service.psps.Of(native.Name).List(s.t.Context(), o, "acme", time.Time{}, "")
		if err == nil {
			page, err = s.service.Unexplained(s.t.Context(), native.Name, o, "acme", page)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range page.Records {
			s.evidenceBy(judge.SourceScan, r)
		}
	}
}

// moved counts the movements of the PSP's ledger that have succeeded.
func (s *shop) moved(o gateway.Object) (n int) {
	s.t.Helper()
	page, err := s.service.psps.Of(native.Name).List(s.t.Context(), o, "acme", time.Time{}, "")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range page.Records {
		if r.Executed() {
			n++
		}
	}
	return n
}

// wantHeld sends a request and expects that the PSP moves nothing for it.
func (s *shop) wantHeld(o gateway.Object, ask func() (Answer, error)) {
	s.t.Helper()
	before := s.moved(o)
	answer, err := ask()
	if err != nil {
		s.t.Fatal(err)
	}
	if now := s.moved(o); now != before {
		s.t.Fatalf("the PSP has moved money %d times instead of %d, and the answer is %T", now, before, answer)
	}
	is[Held](s.t, answer)
}

func (s *shop) creating(key string) func() (Answer, error) {
	return func() (Answer, error) { return s.service.Create(s.t.Context(), keyed(s.t, key), order()) }
}

// The same for a refund: its payment is still there.
func TestRefundThatARestoreHasLostIsNotPaidTwice(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("order-0000000001")
	refunds := func() (Answer, error) {
		return s.service.Refund(t.Context(), keyed(t, "refund-000000001"), p.ID,
			payment.RefundRequest{AmountCents: 100})
	}
	if answer, err := refunds(); err != nil || is[Final](t, answer).Response.Status != http.StatusCreated {
		t.Fatalf("%+v %v", answer, err)
	}
	s.timePasses("DELETE FROM refunds")
	s.timePasses("DELETE FROM idempotency_keys WHERE operation = $1", payment.RefundOperation)
	s.timePasses("UPDATE payments SET refunded_minor = 0")
	s.forgets()
	s.scans()
	s.wantHeld(gateway.RefundObject, refunds)
	s.wantOutside(100) // and no other refund takes it
}

// The PSP's record may name any generation. One that no key of ours can have reached is not ours, and holds no key.
func TestImpossibleGenerationHoldsNoKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001").failed().deleted()
	g.record.Reference, g.record.Key = "", "order-0000000001.g2147483647"
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	if f := is[Final](t, s.create("order-0000000001", order())); f.Response.Status != 201 {
		t.Errorf("answer is %+v", f)
	}
}
