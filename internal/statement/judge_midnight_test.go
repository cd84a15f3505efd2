package statement

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payment"
)

func TestCreatedBeforeMidnightAndDatedAfter(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 24-minute)
	d.publish("acct_acme", d.day)
	d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(24+minute))))
	d.run()
	d.want()
	if s := d.runOf("acct_acme", d.next()); s.Breaks != 0 {
		t.Fatalf("%+v", s)
	}
	d.wantAsked(d.day, d.next())
}

func TestCreatedAfterMidnightAndDatedBefore(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", minute)
	d.publish("acct_acme", d.previous(), lineOf(m, dated(d.at(-minute))))
	d.publish("acct_acme", d.day)
	if s := d.runOf("acct_acme", d.previous()); s.Breaks != 0 {
		t.Fatalf("%+v", s)
	}
	if s := d.run(); s.Breaks != 0 || s.Pending != 0 {
		t.Fatalf("%+v", s)
	}
}

// Near midnight a movement belongs to one run, and that one misses it.
func TestWhatNeitherNeighbourHasIsMissingOnce(t *testing.T) {
	t.Parallel()
	for name, hour := range map[string]float64{
		"well inside": 12, "just after midnight": minute, "just before": -minute, "at midnight": 0,
		"first of the run": -5 * minute,
		"last of the run":  24 - 5.001*minute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			d.paid("ch_1", hour)
			for _, day := range []time.Time{d.previous(), d.day, d.next()} {
				d.publish("acct_acme", day)
			}
			for _, day := range []time.Time{d.previous(), d.next()} {
				if s := d.runOf("acct_acme", day); s.Breaks != 0 || s.Pending != 0 {
					t.Fatalf("in the neighbour's run: %+v", s)
				}
			}
			d.run()
			d.want("missing_there ch_1")
		})
	}
}

func TestDayBeforeWithoutStatementIsWithoutMovements(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_1", minute)
	d.publish("acct_acme", d.day)
	d.run()
	d.want("missing_there ch_1")
	d.wantAsked(d.day, d.previous())
}

// Reading a file is dear: only what is absent, and can be elsewhere, is looked for elsewhere.
func TestNoOtherStatementIsReadWithoutNeed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_missing", 12)
	d.publish("acct_acme", d.day, lineOf(d.paid("ch_1", minute)), lineOf(d.paid("ch_2", 24-6*minute)))
	d.run()
	d.want("missing_there ch_missing")
	d.wantAsked(d.day)
}

// The time in an id is of the process that has made it. A process whose clock is wrong by hours is missed all the same.
func TestMovementOfAProcessWithAWrongClockIsMissed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for i, clock := range []time.Duration{-23 * time.Hour, 23 * time.Hour} {
		d.paid(fmt.Sprint("ch_", i), 12, func(m *movement) { m.clock = clock })
	}
	d.publish("acct_acme", d.day)
	d.run()
	d.want("missing_there ch_0", "missing_there ch_1")
}

// The retry of a failed request executes the payment that the first one created.
func TestExecutedOnALaterDay(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string][]func(*movement){
		"payment": nil, "refund": {refund}, "its key is forgotten": {forgotten},
		"its refund's key is": {refund, forgotten},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m := d.paid("ch_1", 10, append([]func(*movement){finishedAt(d.at(34))}, edits...)...)
			d.publish("acct_acme", d.day)
			d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(34))))
			if s := d.run(); s.Breaks != 0 || s.Pending != 0 {
				t.Fatalf("%+v", s)
			}
			if s := d.runOf("acct_acme", d.next()); s.Breaks != 0 {
				t.Fatalf("%+v", s)
			}
		})
	}
}

// The PSP's clock is ahead: by ours, the payment was finished before its day was over.
func TestFinishedBeforeMidnightAndDatedAfter(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 24-6*minute, finishedAt(d.at(24-3*minute)))
	d.publish("acct_acme", d.day)
	d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(24+minute))))
	if s := d.run(); s.Breaks != 0 || s.Pending != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestAbsentIsPendingUntilTheNextStatementDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has   bool
		want  []string
		asked func(d *fixture) []time.Time
	}{
		"which has it": {true, nil, func(d *fixture) []time.Time { return []time.Time{d.next()} }},
		"which has it not": {false, []string{"missing_there ch_1"},
			func(d *fixture) []time.Time { return []time.Time{d.next(), d.day, d.next()} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m := d.paid("ch_1", 10, finishedAt(d.at(34)))
			d.publish("acct_acme", d.day)
			if s := d.run(); s.Breaks != 0 || s.Pending != 1 {
				t.Fatalf("%+v", s)
			}
			d.publish("acct_acme", d.next())
			if c.has {
				d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(34))))
			}
			d.asked = nil
			d.job(d.next())
			d.want(c.want...)
			d.wantAsked(c.asked(d)...)
			// Once nothing is pending, the day is left in peace.
			if ripe := d.ripe(); len(ripe) != 0 {
				t.Fatalf("%v", ripe)
			}
		})
	}
}

// The key was deleted. The PSP has dated the movement no later than it can have executed it.
func TestNoStatementBeyondTheHorizonIsReadForAKeyThatIsGone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_1", 10, forgotten)
	for i := range 5 {
		d.publish("acct_acme", d.day.Add(time.Duration(i)*oneDay))
	}
	d.run()
	d.want("missing_there ch_1")
	d.wantAsked(d.day, d.next())
}

func TestDayThatIsNotOverIsJudgedAsFarAsItIs(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.day = dayOf(time.Now())
	d.config.Skew = time.Millisecond
	since := time.Since(d.day)
	d.paid("ch_gone", since.Hours()/2)
	d.paid("ch_open", since.Hours()/2, finishedAt(d.day.Add(oneDay)))
	d.paid("ch_new", since.Hours()+1)
	d.publish("acct_acme", d.day)
	if s := d.run(); !s.Partial || s.Pending != 1 {
		t.Fatalf("%+v", s)
	}
	d.want("missing_there ch_gone")
	if n := d.count("SELECT count(*) FROM statement_runs WHERE status = 'partial'"); n != 1 {
		t.Errorf("%d runs are partial", n)
	}
}

// A statement that still grows proves that a movement is there, never that it is not.
func TestTodaysStatementDoesNotDecideForYesterday(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.day = dayOf(time.Now()).Add(-oneDay)
	d.paid("ch_1", 12, finishedAt(d.at(36)))
	d.publish("acct_acme", d.day)
	d.publish("acct_acme", d.next())
	if s := d.run(); s.Breaks != 0 || s.Pending != 1 {
		t.Fatalf("%+v", s)
	}
}

// A key that was renewed stands for another payment, and says nothing of the first.
func TestKeyOfAnotherPaymentDatesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 10)
	d.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	d.exec("UPDATE idempotency_keys SET generation = 2, subject = $1", uuid.New())
	d.publish("acct_acme", d.day)
	d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(34))))
	if s := d.run(); s.Breaks != 0 || s.Pending != 0 {
		t.Fatalf("%+v", s)
	}
}

// The times at which keys are finished are found by the names that payments gives their operations.
func TestViewNamesTheOperationsOfPayments(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("rf_1", 1, refund)
	for object, operation := range map[string]string{"charge": payment.CreateOperation,
		"refund": payment.RefundOperation} {
		if d.count("SELECT count(*) FROM statement_movements WHERE object = $1 AND operation = $2", object,
			operation) != 1 {
			t.Errorf("no %s has the operation %s", object, operation)
		}
	}
}

// The time when a payment's key was finished limits in which statements the payment can be. A neighbour's key has its
// own time.
func TestKeyOfANeighbourDatesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"tenant": "tenant_id = 'globex'", "operation": "operation = 'POST /refunds'", "key": "key = 'another-order'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m := d.paid("ch_1", 10)
			d.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
			// The row comes back as another: where rows lie by tenant, no row can change its tenant.
			d.exec("CREATE TABLE moved AS SELECT * FROM idempotency_keys")
			d.exec("DELETE FROM idempotency_keys")
			d.exec("UPDATE moved SET " + change)
			d.exec("INSERT INTO idempotency_keys SELECT * FROM moved")
			d.publish("acct_acme", d.day)
			d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(34))))
			if s := d.run(); s.Breaks != 0 || s.Pending != 0 {
				t.Fatalf("%+v", s)
			}
		})
	}
}
