package payments

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgtest"
)

// stage is a key with the movement that it stands for, as some moment of its life has left it.
type stage struct {
	*shop
	t           *testing.T
	key         Keyed
	reservation idempotency.Reservation
	lease       idempotency.Lease // of the first attempt
	movement    *movement
	record      gateway.Record // what the PSP's ledger has of it once it is executed
}

// charging reserves a key for an order.
func (s *shop) charging(key string) *stage {
	s.t.Helper()
	k := keyed(s.t, key)
	return s.enter(k, payment.CreateOperation, "/payments", order(), s.charge(k))
}

// refunding reserves a key for the refund of a part of a payment.
func (s *shop) refunding(key string, p payment.Payment, part payment.AmountMinor) *stage {
	s.t.Helper()
	k, asked := keyed(s.t, key), payment.RefundRequest{AmountCents: part}
	return s.enter(k, payment.RefundOperation, "/payments/"+p.ID.String()+"/refunds", asked,
		newRefund(&s.service.Books, k.Merchant, p, asked))
}

func (s *shop) enter(k Keyed, operation idempotency.Operation, path string, asked any, m *movement) *stage {
	s.t.Helper()
	f, err := idempotency.FingerprintOf(http.MethodPost, path, asked)
	if err != nil {
		s.t.Fatal(err)
	}
	g := &stage{shop: s, t: s.t, key: k, reservation: s.reservation(operation, k), movement: m}
	g.reservation.Fingerprint = f
	g.lease = g.reserve(m)
	c, err := s.service.gather(s.t.Context(), g.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	g.record = recordOf(c, "psp_"+g.lease.Subject.String())
	return g
}

// reserve runs tx 1 for the stage's key, as a new request.
func (s *stage) reserve(m *movement) idempotency.Lease {
	s.t.Helper()
	c := s.keys.NewReservation(s.reservation.Ref, s.reservation.Fingerprint, uuid.Must(uuid.NewV7()),
		uuid.Must(uuid.NewV7()))
	d, err := s.service.reserve(s.t.Context(), c, m)
	if err != nil {
		s.t.Fatal(err)
	}
	return is[idempotency.Execute](s.t, d).Lease
}

// again is the movement of a new request with the stage's key.
func (s *stage) again() *movement {
	m := *s.movement
	m.refund = nil
	if !m.isRefund() {
		m.payment = nil
	}
	return &m
}

// recordOf is a case as the PSP has it that has executed it.
func recordOf(c gathered, id string) gateway.Record {
	r := gateway.Record{
		Object: c.movement.object, ID: id, Account: c.seen.Account, Key: c.seen.Own.PassThroughKey(),
		Status: "succeeded", Created: time.Date(2026, 11, 20, 9, 5, 0, 0, time.UTC),
	}
	amount, currency := c.movement.terms()
	r.Reference = payment.ReferenceOf(r.Object, c.movement.subject())
	r.AmountMinor, r.Currency = int64(amount), string(currency)
	if c.movement.isRefund() {
		r.ChargeID = c.movement.payment.PSPChargeID
	}
	return r
}

// declinedAs is the record of a refusal in the place of an execution.
func declinedAs(r gateway.Record, code string) gateway.Record {
	r.Status, r.DeclineCode = "declined", code
	return r
}

// as gives a record another id.
func as(id string, r gateway.Record) gateway.Record {
	r.ID = id
	return r
}

// live is the end of the live path: tx 2 with what the PSP has answered.
func (s *stage) live(l idempotency.Lease, m *movement, o gateway.Outcome) Answer {
	s.t.Helper()
	answer, err := s.ends(l, m, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// ends is live for one that may fail: the second half of execute.
func (s *stage) ends(l idempotency.Lease, m *movement, o gateway.Outcome) (Answer, error) {
	ctx, g, reply := s.t.Context(), gatherReserved(l, m), judge.Reply{Attempt: l.Attempt, Outcome: o}
	step := judge.Judge(g.seen, reply)
	applied, err := s.service.apply(ctx, g, step)
	if err != nil || !applied.Passed {
		return s.service.overtaken(ctx, g, reply, err)
	}
	return answerFor(g, step, applied), nil
}

func (s *stage) succeeded() *stage {
	s.live(s.lease, s.movement, gateway.Succeeded{ID: s.record.ID})
	return s
}

func (s *stage) declined() *stage {
	s.live(s.lease, s.movement, gateway.Declined{ID: s.record.ID, Code: "no_money"})
	return s
}

func (s *stage) failed() *stage {
	s.live(s.lease, s.movement, gateway.NotExecuted{Reason: "no connection"})
	return s
}

func (s *stage) lost() *stage {
	s.live(s.lease, s.movement, gateway.Indeterminate{Reason: "no answer in time"})
	return s
}

// expired lets the key's retention pass.
func (s *stage) expired() *stage {
	s.t.Helper()
	s.timePasses("UPDATE idempotency_keys SET expires_at = clock_timestamp() WHERE key = $1", s.key.Key.String())
	if n, err := s.keys.Expire(s.t.Context(), 10); n != 1 || err != nil {
		s.t.Fatalf("%d keys expired: %v", n, err)
	}
	return s
}

// renewed has an expired key renewed, for another payment or refund.
func (s *stage) renewed() *stage {
	s.expired().reserve(s.again())
	return s
}

// deleted lets the audit window of an expired key pass.
func (s *stage) deleted() *stage {
	s.t.Helper()
	s.expired().timePasses("UPDATE idempotency_keys SET delete_after = clock_timestamp() WHERE key = $1",
		s.key.Key.String())
	if n, err := s.keys.Delete(s.t.Context(), 10); n != 1 || err != nil {
		s.t.Fatalf("%d keys deleted: %v", n, err)
	}
	return s
}

// windowPasses moves the moment at which the key became unknown beyond the grace period.
func (s *stage) windowPasses() *stage {
	s.t.Helper()
	s.timePasses("UPDATE idempotency_keys SET unknown_since = unknown_since - $2::interval WHERE key = $1",
		s.key.Key.String(), terms().GracePeriod)
	return s
}

// gathers reads what judge would be asked about.
func (s *stage) gathers() gathered {
	s.t.Helper()
	seen, err := s.service.gather(s.t.Context(), s.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	return seen
}

func (s *stage) row() idempotency.KeyRow {
	s.t.Helper()
	row, err := s.keys.Find(s.t.Context(), s.reservation.Ref)
	if err != nil {
		s.t.Fatal(err)
	}
	return row
}

func (s *stage) wantStatus(want idempotency.Status, attempt int32) idempotency.KeyRow {
	s.t.Helper()
	row := s.row()
	if row.Status != want || row.Attempt != attempt {
		s.t.Fatalf("the key is %s, attempt %d; want %s, %d", row.Status, row.Attempt, want, attempt)
	}
	return row
}

// wantMoved checks what became of the payment or refund itself.
func (s *stage) wantMoved(want payment.Status, pspID string) {
	s.t.Helper()
	c, err := s.service.gather(s.t.Context(), s.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	if v := c.movement.rowVerdict(); v.Status != want || v.PSPID != pspID {
		s.t.Fatalf("the movement is %+v, want %s as %q", v, want, pspID)
	}
}

// timeline is the key's, each line as "actor from>to".
func (s *stage) timeline() []string {
	s.t.Helper()
	events, err := s.keys.Events(s.t.Context(), s.reservation.Ref)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := []string{}
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s>%s", e.Actor, e.From, e.To))
	}
	return lines
}

func (s *stage) wantTimeline(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.timeline()); diff != "" {
		s.t.Fatalf("timeline differs (-want +got):\n%s", diff)
	}
}

// evidenceBy brings evidence, and wants it to be taken.
func (s *shop) evidenceBy(source judge.Source, r gateway.Record) Effect {
	s.t.Helper()
	finding, err := s.service.ApplyRecord(s.t.Context(), judge.Record{Source: source, Record: r})
	if err != nil {
		s.t.Fatal(err)
	}
	return finding
}

// everything is all that may move: keys, timelines, payments and refunds. What dead letters hold of a key, and what
// they say was moved of a payment, is no movement of it.
func (s *shop) everything() string {
	s.t.Helper()
	var all []string
	for _, table := range []string{"idempotency_keys", "idempotency_key_events", "payments", "refunds"} {
		rows := pgtest.Value[string](s.t, s.pool, "SELECT coalesce(string_agg(r, E'\\n' ORDER BY r), '') FROM "+table+
			" AS t, CAST(to_jsonb(t) - 'dead_letter_hold' - 'moved_outside_minor' AS text) AS r")
		all = append(all, rows)
	}
	return strings.Join(all, "\n\n")
}

// wantDeadLetters compares all dead letters there are, each as "kind finding", oldest first.
func (s *shop) wantDeadLetters(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...),
		s.texts("SELECT kind || ' ' || finding FROM dead_letters ORDER BY opened_at, id")); diff != "" {
		s.t.Fatalf("dead letters differ (-want +got):\n%s", diff)
	}
}

// texts reads one column.
func (s *shop) texts(sql string, args ...any) []string {
	s.t.Helper()
	return pgtest.Values[string](s.t, s.pool, sql, args...)
}
