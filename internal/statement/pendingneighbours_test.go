package statement

import (
	"testing"
	"time"
)

// wantPending checks how many movements of acme's day are pending.
func (d *fixture) wantPending(day time.Time, want int64) {
	d.t.Helper()
	if n := d.count("SELECT count(*) FROM statement_pending WHERE account = 'acct_acme' AND day = $1", day); n != want {
		d.t.Errorf("%d movements are pending, want %d", n, want)
	}
}

// A failed payment whose key has expired is never executed any more.
func TestFailedMovementWhoseKeyHasExpiredIsNotPending(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.expires(d.paid("", 10, func(m *movement) { m.status = "failed" }))
	d.publishDays(0)
	if s := d.run(); s.Pending != 0 {
		t.Errorf("%+v", s)
	}
	d.wantPending(d.day, 0)
}

// No other statement is read for an open movement: it is judged later anyway.
func TestOpenMovementNearMidnightCostsNoOtherStatement(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("", minute, open)
	d.paid("", 24-6*minute, open)
	d.publishDays(1)
	d.run()
	d.wantAsked(d.day)
	d.wantPending(d.day, 2)
}

// A line of another day says nothing of what a line of this day has shown, and nothing of a refund with the same id.
func TestLineOfAnotherDayEndsOnlyTheAbsenceOfItsMovement(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m, missing := d.paid("ch_1", 10), d.paid("ch_2", 11)
	d.twin(missing, d.paid("rf_2", 12, refund))
	d.publishDays(1)
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.amount = 7 }))
	d.run()
	d.want("amount ch_1", "missing_there ch_2", "missing_there rf_2")
	d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(30))), lineOf(missing, dated(d.at(31))))
	d.runOf("acct_acme", d.next())
	d.want("amount ch_1", "missing_there rf_2")
}

// twin gives a refund the id of a payment.
func (d *fixture) twin(payment, refund movement) {
	d.t.Helper()
	d.exec("ALTER TABLE refunds DISABLE TRIGGER USER")
	d.exec("UPDATE refunds SET id = $1 WHERE id = $2", payment.id, refund.id)
	d.exec("ALTER TABLE refunds ENABLE TRIGGER USER")
}

// A movement stays pending if the line of another day does not explain it: a line of a payment with the same id, a line
// by which no money has moved, or a further line, while that of the day is still left alone.
func TestLineOfAnotherDayThatDoesNotExplainLeavesItPending(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m, listed, other := d.paid("", 10, open), d.paid("", 11, open), d.paid("ch_3", 12)
	d.twin(other, d.paid("", 13, refund, open))
	as := func(id string) func(*line) { return func(l *line) { l.id = id } }
	later := dated(d.at(30))
	d.publish("acct_acme", d.day, lineOf(listed, as("ch_2")), lineOf(other))
	d.run()
	d.wantPending(d.day, 3)
	d.publish("acct_acme", d.next(), lineOf(m, later, as("ch_1"), func(l *line) { l.status = "declined" }),
		lineOf(listed, later, as("ch_2b")), lineOf(other, later, as("ch_3b")))
	d.runOf("acct_acme", d.next())
	d.wantPending(d.day, 3)
	d.publish("acct_acme", d.next(), lineOf(m, later, as("ch_1")))
	d.runOf("acct_acme", d.next())
	d.wantPending(d.day, 2)
}

// The line of a failed payment is told once, and its day is judged once more: by then the payment may have succeeded.
func TestDayIsJudgedOnceMoreForTheLineOfAFailedMovement(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("", 10, func(m *movement) { m.status = "failed" })
	d.expires(m)
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.id = "ch_1" }))
	d.run()
	d.wantPending(d.day, 1)
	d.run()
	d.wantPending(d.day, 0)
	d.want("status ch_1")
}
