package statement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What was open when its day was judged is judged when it is final: a payment whose customer had to authenticate, one
// that an operator has vouched for, a bank debit.
func TestOpenMovementIsJudgedWhenItIsFinal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edits  []func(*movement)
		status string
		psp    string
		listed bool
		want   []string
	}{
		"succeeded, and in no statement": {[]func(*movement){open}, "succeeded", "ch_1", false,
			[]string{"missing_there ch_1"}},
		"succeeded, and listed": {[]func(*movement){open}, "succeeded", "ch_1", true, nil},
		"vouched for, and not there": {[]func(*movement){open}, "succeeded", "operator:x", false,
			[]string{"missing_there operator:x"}},
		"declined": {[]func(*movement){open}, "declined", "ch_1", false, nil},
		"a refund in no statement": {[]func(*movement){refund, open}, "succeeded", "rf_1", false,
			[]string{"missing_there rf_1"}},
		"a refund, and listed": {[]func(*movement){refund, open}, "succeeded", "rf_1", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m := d.paid("", 10, c.edits...)
			d.publishDays(5)
			d.jobsUpTo(d.at(24 * 3))
			d.want()
			m = d.becomes(m, c.status, c.psp, d.at(24*4+10))
			if c.listed {
				d.publish("acct_acme", d.at(24*4), lineOf(m, dated(d.at(24*4+10))))
			}
			d.job(d.at(24 * 4))
			d.want(c.want...)
			if n := d.count("SELECT count(*) FROM statement_pending"); n != 0 {
				t.Errorf("%d movements are still pending", n)
			}
		})
	}
}

// The statement of a day is read once, also if it has movements of earlier days that were open.
func TestMovementThatIsListedLaterCostsNoSecondReading(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("", 10, open)
	d.publishDays(4)
	d.jobsUpTo(d.at(24 * 3))
	m = d.becomes(m, "succeeded", "ch_1", d.at(24*4+10))
	d.publish("acct_acme", d.at(24*4), lineOf(m, dated(d.at(24*4+10))))
	d.job(d.at(24 * 4))
	d.wantAsked(d.day, d.at(24), d.at(48), d.at(72), d.at(96))
}

// What was not executed in the end moved no money: its day need not be read again for that.
func TestMovementThatWasNotExecutedCostsNoSecondReading(t *testing.T) {
	t.Parallel()
	d := setup(t)
	declined := d.paid("", 10, open)
	released := d.paid("", 11, func(m *movement) { m.status = "failed" })
	d.publishDays(2)
	d.jobsUpTo(d.next())
	d.becomes(declined, "declined", "ch_1", d.at(50))
	d.expires(released)
	d.asked = nil
	d.job(d.at(48))
	d.wantAsked(d.at(48))
	if n := d.count("SELECT count(*) FROM statement_pending"); n != 0 {
		t.Errorf("%d movements are still pending", n)
	}
}

// expires lets the key of a movement expire.
func (d *fixture) expires(m movement) {
	d.t.Helper()
	d.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	d.exec("UPDATE idempotency_keys SET status = 'expired', delete_after = now() WHERE subject = $1", m.id)
	d.exec("ALTER TABLE idempotency_keys ENABLE TRIGGER USER")
}

// A key that was released may be executed by a retry, also after its day was judged.
func TestReleasedMovementIsJudgedWhenItIsFinal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status string
		want   []string
	}{"executed by a retry": {"succeeded", []string{"missing_there ch_1"}}, "expired": {"", nil}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m := d.paid("", 10, func(m *movement) { m.status = "failed" })
			d.publishDays(4)
			d.jobsUpTo(d.next())
			d.want()
			if n := d.count("SELECT count(*) FROM statement_pending WHERE subject = $1", m.id); n != 1 {
				t.Fatalf("%d movements are pending", n)
			}
			if c.status == "" {
				d.expires(m)
			} else {
				d.becomes(m, c.status, "ch_1", d.at(50))
			}
			d.job(d.at(48))
			d.want(c.want...)
			if n := d.count("SELECT count(*) FROM statement_pending"); n != 0 {
				t.Errorf("%d movements are still pending", n)
			}
		})
	}
}

// A bank decides after days, and books the debit then. No run may have seen the payment before.
func TestDebitOfALaterDayIsLookedForUntilItWasFinished(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*movement)
		want []string
	}{
		"its key is there":     {finishedAt(time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)), nil},
		"its key is forgotten": {forgotten, []string{"missing_there ch_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m := d.paid("ch_1", 10, c.edit)
			d.publishDays(5)
			d.publish("acct_acme", d.at(24*4), lineOf(m, dated(d.at(24*4+10))))
			d.run()
			d.want(c.want...)
		})
	}
}

// Whatever day's statement shows the movement, it is not missing any more.
func TestStatementOfAnyDayEndsAnAbsence(t *testing.T) {
	t.Parallel()
	for name, day := range map[string]int{"a later day": 4, "the day itself, corrected": 0, "the day before": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m, other := d.paid("ch_1", 10), d.paid("ch_2", 11)
			theirs := d.paid("ch_3", 12, globex)
			d.publishDays(4)
			d.publish("acct_globex", d.day)
			d.publish("acct_globex", d.at(24*4))
			d.run()
			d.runOf("acct_globex", d.day)
			d.want("missing_there ch_1", "missing_there ch_2")
			d.told = nil
			on := d.at(24 * float64(day))
			d.publish("acct_acme", on, lineOf(m, dated(on.Add(time.Hour))))
			if s := d.runOf("acct_acme", on); s.Gone != 1 || s.Breaks != map[bool]int64{true: 1}[day == 0] {
				t.Errorf("%+v", s)
			}
			d.want("missing_there ch_2")
			want := []string{"listed ch_1 " + m.reference()}
			if diff := cmp.Diff(want, d.told); diff != "" {
				t.Errorf("told otherwise (-want +got):\n%s", diff)
			}
			if got := d.breaksOf("acct_globex", d.day); len(got) != 1 {
				t.Errorf("globex has %q, and not the break of %s", got, theirs.id)
			}
			_ = other
		})
	}
}

// After a restore, the movement that was missing may not be there any more. No statement has it for that reason.
func TestAbsenceOfWhatIsGoneIsNotListed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	gone, listed := d.paid("ch_1", 10), d.paid("ch_2", 11)
	d.publishDays(1)
	d.run()
	d.want("missing_there ch_1", "missing_there ch_2")
	d.told = nil
	d.exec("ALTER TABLE payments DISABLE TRIGGER USER")
	d.exec("DELETE FROM payments WHERE id = $1", gone.id)
	d.publish("acct_acme", d.day, lineOf(listed))
	d.run()
	d.want()
	if diff := cmp.Diff([]string{"listed ch_2 " + listed.reference()}, d.told); diff != "" {
		t.Errorf("told otherwise (-want +got):\n%s", diff)
	}
}

// A line by which no money has moved does not show the movement.
func TestDeclinedLineEndsNoAbsence(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 10)
	d.publishDays(1)
	d.run()
	d.told = nil
	d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(30)), func(l *line) { l.status = "declined" }))
	d.runOf("acct_acme", d.next())
	d.want("missing_there ch_1")
	if diff := cmp.Diff([]string{"status ch_1"}, d.told); diff != "" {
		t.Errorf("told otherwise (-want +got):\n%s", diff)
	}
}

// While our payment is open, its line is left to those who resolve the payment. The run of a later day finds it final,
// and tells of it again, or closes the break.
func TestLineThatWasLeftAloneIsJudgedWhenItsMovementIsFinal(t *testing.T) {
	t.Parallel()
	for status, c := range map[string]struct {
		want []string
		told []string
	}{
		"succeeded": {nil, []string{"status ch_1"}},
		"declined":  {[]string{"status ch_1"}, []string{"status ch_1", "status ch_1"}},
	} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m := d.paid("", 10, open)
			d.publishDays(4)
			d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.id = "ch_1" }))
			d.jobsUpTo(d.at(48))
			d.want("status ch_1")
			d.becomes(m, status, "ch_1", d.at(50))
			d.asked = nil
			d.job(d.at(72))
			d.want(c.want...)
			if diff := cmp.Diff(c.told, d.told); diff != "" {
				t.Errorf("told otherwise (-want +got):\n%s", diff)
			}
			d.job(d.at(96))
			d.wantAsked(d.at(72), d.day, d.at(96))
		})
	}
}

// Many days after its own, one run does not read all statements since then. What was not found is a case.
func TestNoMoreStatementsAreReadThanTheLimit(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_1", 10, finishedAt(d.at(24*60)))
	d.publishDays(40)
	d.run()
	d.want("missing_there ch_1")
	if len(d.asked) != 32 {
		t.Errorf("%d statements were read: %v", len(d.asked), d.asked)
	}
}

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
