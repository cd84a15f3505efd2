package payments

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// The statements of payments run behind one of package idempotency, in its transaction. They are tried here without it:
// unless the key stands where that statement would have brought it, they write nothing.

// movements makes one of each kind, with the table that it is written to.
func (s *shop) movements(k Keyed) map[string]*movement {
	return map[string]*movement{
		"payments": s.charge(k),
		"refunds":  newRefund(s.psp(), k.Merchant, s.paid("paid-00000000042"), payment.RefundRequest{}),
	}
}

func (s *shop) mustSend(calls ...postgres.Call) {
	s.t.Helper()
	if err := s.service.db.Pipeline(s.t.Context(), calls...); err != nil {
		s.t.Fatal(err)
	}
}

// keyAlone takes a key for nothing.
func (s *shop) keyAlone(c idempotency.Reservation) idempotency.Lease {
	s.t.Helper()
	d, err := s.keys.Take(s.t.Context(), c, func(ctx context.Context, t idempotency.Try) (idempotency.Decision, error) {
		var d []idempotency.Decision
		err := s.service.db.Pipeline(ctx, s.keys.Calls([]idempotency.Try{t}, &d)...)
		return slices.Concat(d, []idempotency.Decision{nil})[0], err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return is[idempotency.Execute](s.t, d).Lease
}

// beginning is the first try of a reservation.
func beginning(c idempotency.Reservation) idempotency.Try {
	return idempotency.Try{Reservation: c, Begins: true}
}

// begin writes the row of a reservation, without the key.
func (s *shop) begin(m *movement, c idempotency.Reservation) {
	s.t.Helper()
	s.rows(m, beginning(c))
}

// resume brings the row of a reservation back, without the key.
func (s *shop) resume(m *movement, c idempotency.Reservation, subject uuid.UUID) {
	s.t.Helper()
	s.rows(m, idempotency.Try{Reservation: c, Resumes: subject})
}

func (s *shop) rows(m *movement, t idempotency.Try) {
	s.t.Helper()
	came := make([]reserved, 1)
	s.mustSend(s.service.rowsOf([]reservation{{Try: t, movement: m}}, came)...)
	m.become(came[0].movement)
}

// record writes a verdict to the row, without the key.
func (s *shop) record(m *movement, u rowUpdate) {
	s.t.Helper()
	came := make([]written, 1)
	if m.isRefund() {
		s.mustSend(m.recordRefund(u, &came[0])...)
		return
	}
	s.mustSend(s.service.recordPayments([]rowUpdate{u}, came))
}

func (s *shop) release(l idempotency.Lease) {
	s.t.Helper()
	var out idempotency.GuardResult
	s.mustSend(s.keys.Release(l, "no connection", false, &out))
	if !out.Passed {
		s.t.Fatal("the key was not released")
	}
}

// withStatus counts the rows of the movement's table under the test's key.
func (s *shop) withStatus(table string, status payment.Status) int {
	s.t.Helper()
	return s.count("SELECT count(*) FROM "+table+" WHERE idempotency_key = 'order-0000000042' AND status = $1",
		string(status))
}

// otherReservations differ from the right reservation in one thing each: the lease, the subject, or a part of the key.
func otherReservations(t *testing.T, right idempotency.Reservation) map[string]idempotency.Reservation {
	t.Helper()
	lease, subject, tenant, operation, key := right, right, right, right, right
	lease.LeaseID = uuid.New()
	subject.Subject = uuid.New()
	tenant.Ref.Tenant = "globex"
	operation.Ref.Operation = "POST /elsewhere"
	key.Ref.Key = keyed(t, "order-0000000043").Key
	return map[string]idempotency.Reservation{"lease": lease, "subject": subject, "tenant": tenant,
		"operation": operation, "key": key}
}

func TestMovementBeginsOnlyBehindItsReservation(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"payments", "refunds"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			k := keyed(t, "order-0000000042")
			m := s.movements(k)[table]
			c := s.reservation(payment.CreateOperation, k)
			lease := s.keyAlone(c)
			before := s.count("SELECT count(*) FROM " + table)
			wantNone := func(why string, c idempotency.Reservation) {
				t.Helper()
				s.begin(m, c)
				if n := s.count("SELECT count(*) FROM "+table) - before; n != 0 || m.resource() != nil {
					t.Fatalf("%s: %d rows were written", why, n)
				}
			}
			for what, other := range otherReservations(t, c) {
				wantNone("another "+what, other)
			}
			s.release(lease)
			wantNone("not in progress", c)

			c = s.reservation(payment.CreateOperation, k)
			c.Subject = s.keyAlone(c).Subject
			s.begin(m, c)
			if s.withStatus(table, payment.Processing) != 1 || m.resource() == nil {
				t.Fatal("the owner's own row was not written")
			}
		})
	}
}

func TestMovementResumesOnlyBehindItsRetake(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"payments", "refunds"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			k := keyed(t, "order-0000000042")
			m := s.movements(k)[table]
			c := s.reservation(payment.CreateOperation, k)
			first := s.reserveOnce(c, m)
			fail := func(l idempotency.Lease) {
				t.Helper()
				s.release(l)
				failed := rowUpdate{l.Execution(), payment.Verdict{Status: payment.Failed},
					idempotency.FailedRetryableStatus, false}
				s.record(m, failed)
				if s.withStatus(table, payment.Failed) != 1 {
					t.Fatal("the row did not fail")
				}
			}
			resume := func(why string, c idempotency.Reservation, subject uuid.UUID) {
				t.Helper()
				s.resume(m, c, subject)
				if s.withStatus(table, payment.Failed) != 1 {
					t.Fatalf("%s: the row was resumed", why)
				}
			}
			fail(first)
			resume("not in progress", c, first.Subject)
			c = s.reservation(payment.CreateOperation, k)
			second := s.keyAlone(c)
			for what, other := range otherReservations(t, c) {
				if what != "subject" {
					resume("another "+what, other, first.Subject)
				}
			}
			resume("another subject", c, uuid.New())
			s.resume(m, c, second.Subject)
			if s.withStatus(table, payment.Processing) != 1 {
				t.Fatal("the owner's own row was not resumed")
			}
			// A row with a verdict stays as it is, whatever its key says.
			sql := map[string]string{"payments": "UPDATE payments SET status = 'succeeded', psp_charge_id = 'ch_42' WHERE id = $1",
				"refunds": "UPDATE refunds SET status = 'succeeded', psp_refund_id = 'rf_42' WHERE id = $1"}[table]
			pgtest.Exec(t, s.pool, sql, second.Subject)
			s.resume(m, c, second.Subject)
			if s.withStatus(table, payment.Succeeded) != 1 {
				t.Fatal("a verdict was taken back")
			}
		})
	}
}

// A key's subject is written under that key alone: a row of one key is not resumed or resolved by the owner of another.
func TestMovementOfAnotherKeyIsNotTouched(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"payments", "refunds"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			k, other := keyed(t, "order-0000000042"), keyed(t, "order-0000000043")
			m := s.movements(k)[table]
			lease := s.reserveOnce(s.reservation(payment.CreateOperation, k), m)
			c := s.reservation(payment.CreateOperation, other)
			foreign := s.keyAlone(c)
			var out idempotency.GuardResult
			s.mustSend(s.keys.Release(foreign, "no connection", false, &out))
			s.record(m, rowUpdate{foreign.Execution(), payment.Verdict{Status: payment.Failed},
				idempotency.FailedRetryableStatus, false})
			if s.withStatus(table, payment.Processing) != 1 {
				t.Fatal("the row was resolved by the owner of another key")
			}
			s.release(lease)
			failed := rowUpdate{lease.Execution(), payment.Verdict{Status: payment.Failed},
				idempotency.FailedRetryableStatus, false}
			s.record(m, failed)
			c = s.reservation(payment.CreateOperation, other)
			s.keyAlone(c)
			s.resume(m, c, lease.Subject)
			if s.withStatus(table, payment.Failed) != 1 {
				t.Fatal("the row was resumed by the owner of another key")
			}
		})
	}
}

func TestMovementIsWrittenOnlyBehindItsKeysTransition(t *testing.T) {
	t.Parallel()
	paid := payment.Verdict{Status: payment.Succeeded, PSPID: "psp_42"}
	for _, table := range []string{"payments", "refunds"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			k := keyed(t, "order-0000000042")
			m := s.movements(k)[table]
			bring := func(l idempotency.Lease, v payment.Verdict, to idempotency.Status) {
				t.Helper()
				s.record(m, rowUpdate{l.Execution(), v, to, false})
			}
			first := s.reserveOnce(s.reservation(payment.CreateOperation, k), m)
			bring(first, paid, idempotency.CompletedStatus)
			if s.withStatus(table, payment.Processing) != 1 {
				t.Fatal("the row was resolved while its key was in progress")
			}
			s.release(first)
			bring(first, payment.Verdict{Status: payment.Failed}, idempotency.FailedRetryableStatus)
			c := s.reservation(payment.CreateOperation, k)
			second := s.keyAlone(c)
			s.resume(m, c, second.Subject)
			var out []idempotency.GuardResult
			s.mustSend(s.keys.Complete([]idempotency.Completion{{Lease: second,
				Response: idempotency.Response{Status: 201, Body: []byte("{}")}}}, &out))
			bring(first, paid, idempotency.CompletedStatus)
			if !out[0].Passed || s.withStatus(table, payment.Processing) != 1 {
				t.Fatal("the row was resolved by the owner of an earlier attempt")
			}
			bring(second, payment.Verdict{Status: payment.Failed}, idempotency.FailedRetryableStatus)
			if s.withStatus(table, payment.Processing) != 1 {
				t.Fatal("the row failed although its key is completed")
			}
			bring(second, paid, idempotency.CompletedStatus)
			if s.withStatus(table, payment.Succeeded) != 1 {
				t.Fatal("the owner's own row was not resolved")
			}
			// Sent again, with another verdict, it finds nothing to resolve.
			bring(second, payment.Verdict{Status: payment.Declined, Code: "no"}, idempotency.CompletedStatus)
			bring(second, paid, idempotency.CompletedStatus)
			if s.withStatus(table, payment.Succeeded) != 1 {
				t.Fatal("a verdict was replaced")
			}
		})
	}
}

// The second generation of a key has a row of its own; the owner of the first has no hold on it, nor the other way
// round.
func TestMovementOfAnEarlierGenerationIsNotTouched(t *testing.T) {
	t.Parallel()
	s := setup(t)
	k := keyed(t, "order-0000000042")
	m := s.movements(k)["payments"]
	first := s.reserveOnce(s.reservation(payment.CreateOperation, k), m)
	s.release(first)
	s.exec("UPDATE idempotency_keys SET status = 'expired', delete_after = clock_timestamp() WHERE key = 'order-0000000042'")
	s.release(s.keyAlone(s.reservation(payment.CreateOperation, k)))
	s.record(m, rowUpdate{first.Execution(), payment.Verdict{Status: payment.Failed},
		idempotency.FailedRetryableStatus, false})
	if s.withStatus("payments", payment.Processing) != 1 {
		t.Fatal("a generation that is over has resolved its row behind the next one's transition")
	}
}

func TestMovementThatIsSentAgainForgetsItsRow(t *testing.T) {
	t.Parallel()
	for what, again := range map[string]func(*shop, *movement, idempotency.Reservation){
		"begin":  (*shop).begin,
		"resume": func(s *shop, m *movement, c idempotency.Reservation) { s.resume(m, c, c.Subject) },
	} {
		s := setup(t)
		for table, m := range s.movements(keyed(t, "order-0000000042")) {
			c := s.reservation(payment.CreateOperation, keyed(t, what+"-of-"+table+"-0042"))
			s.keyAlone(c)
			if s.begin(m, c); m.resource() == nil {
				t.Fatalf("%s: not begun", table)
			}
			if again(s, m, c); m.resource() != nil {
				t.Errorf("%s, %s: a row is in hand that may have been rolled back", table, what)
			}
		}
	}
}
