package deadletters

import (
	"testing"

	"github.com/google/uuid"

	"payonce/test/pgtest"
)

// A dead letter holds its own key, and an operator's decision is about its own key. Each case is a key that differs in
// one part, as a key of another tenant that looks the same.
func TestDeadLetterIsAboutItsOwnKeyAlone(t *testing.T) {
	t.Parallel()
	type edit func(about *About, subject *uuid.UUID)
	its := func(*About, *uuid.UUID) {}
	for name, c := range map[string]struct {
		edit   edit
		status string
		whole  bool // the dead letter names no payment: it is about the key, whatever the key stands for
		held   bool // by the dead letter
		again  int  // dead letters that are open when the finding comes again after a decision
	}{
		"its own key, unknown":          {its, "unknown", false, true, 1},
		"its own key, no payment named": {its, "unknown", true, true, 0},
		"its own key, completed":        {its, "completed", false, true, 0},

		"another tenant":     {edit: func(a *About, _ *uuid.UUID) { a.Tenant = "globex" }, status: "unknown"},
		"another operation":  {edit: func(a *About, _ *uuid.UUID) { a.Operation = "POST /refunds" }, status: "unknown"},
		"another key":        {edit: func(a *About, _ *uuid.UUID) { a.Key += "0" }, status: "unknown"},
		"another generation": {edit: func(a *About, _ *uuid.UUID) { a.Generation++ }, status: "unknown"},
		"another subject": {edit: func(_ *About, s *uuid.UUID) { *s = uuid.Must(uuid.NewV7()) },
			status: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			l := aDeadLetter()
			about, subject := *l.About, *l.Subject
			if c.whole {
				l.Subject = nil
			}
			c.edit(&about, &subject)
			o.keyAsIs(about, subject, c.status)
			o.put(l)
			if held := o.hold() != "none"; held != c.held {
				t.Errorf("held is %t", held)
			}
			if _, err := o.resolve(l.ID, 1, Executed); err != nil {
				t.Fatal(err)
			}
			if hold := o.hold(); hold != "none" {
				t.Errorf("after the decision it holds %s", hold)
			}
			l.ID = uuid.Must(uuid.NewV7())
			o.put(l)
			if got := len(o.open()); got != c.again {
				t.Errorf("the finding came again, and %d are open", got)
			}
		})
	}
}

// What is open about another key, or about another payment, has no say in what is decided here; nor is it decided here.
func TestDecisionLeavesOtherDeadLettersAlone(t *testing.T) {
	t.Parallel()
	mine := aDeadLetter()
	for name, other := range otherThan(mine) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			o.keyAsIs(*mine.About, *mine.Subject, "unknown")
			held := "none" // by what is about another payment that this key was for
			if name == "tenant" || name == "operation" || name == "key" {
				o.keyAsIs(*other.About, *other.Subject, "unknown")
				held = "release"
			}
			if name == "generation" { // which has no row, and neighbours that look like it
				about := *other.About
				for _, neighbour := range []string{"operation", "key"} {
					l := otherThan(other)[neighbour]
					o.keyAsIs(*l.About, *l.Subject, "unknown")
				}
				other.Subject, other.Finding = nil, about.Key
			}
			o.put(mine, other)
			if _, err := o.resolve(mine.ID, 1, Executed); err != nil {
				t.Fatal(err)
			}
			if hold := o.holdOf(mine); hold != "none" {
				t.Errorf("after the decision the key is held: %s", hold)
			}
			if hold := o.holdOf(other); hold != held {
				t.Errorf("the other key's hold is %s", hold)
			}
		})
	}
}

// What is still open about the key goes on forbidding what it forbids, and a lesser dead letter takes nothing away.
func TestHoldIsTheStrongestOfWhatIsOpen(t *testing.T) {
	t.Parallel()
	mine := aDeadLetter()
	whole, same, failedJob := mine, mine, mine
	whole.ID, whole.Kind, whole.Subject = uuid.Must(uuid.NewV7()), PSPMemoryOver, nil
	same.ID, same.Kind = uuid.Must(uuid.NewV7()), LookupsExhausted
	failedJob.ID, failedJob.Kind = uuid.Must(uuid.NewV7()), JobDiscarded
	moved := otherThan(mine)["generation"]
	moved.Evidence = moneyMoved
	outside := moved
	outside.ID, outside.Kind = uuid.Must(uuid.NewV7()), MovedOutside
	for name, c := range map[string]struct {
		others []DeadLetter
		want   string // the hold after the decision about mine
	}{
		"nothing else":                            {nil, "none"},
		"one about the whole key":                 {[]DeadLetter{whole}, "release"},
		"one about this payment":                  {[]DeadLetter{same}, "release"},
		"a failed job":                            {[]DeadLetter{failedJob}, "expiry"},
		"one, then a failed job":                  {[]DeadLetter{same, failedJob}, "release"},
		"a failed job, then one":                  {[]DeadLetter{failedJob, same}, "release"},
		"money that moved for an earlier payment": {[]DeadLetter{moved}, "decline"},
		"what others moved of an earlier payment": {[]DeadLetter{outside}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			o.keyAsIs(*mine.About, *mine.Subject, "unknown")
			o.put(append([]DeadLetter{mine}, c.others...)...)
			if hold := o.hold(); hold != c.want && (hold != "release" || c.want == "decline") {
				t.Errorf("with all open, the hold is %s", hold)
			}
			if _, err := o.resolve(mine.ID, 1, Executed); err != nil {
				t.Fatal(err)
			}
			if hold := o.hold(); hold != c.want {
				t.Errorf("after the decision, the hold is %s", hold)
			}
		})
	}
}

// What others have moved of a payment that was executed is no reason to hold its key once it has expired: the next
// payment of the key is another one.
func TestWhatOthersHaveMovedHoldsNoExpiredKeyOfAnExecutedPayment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   Kind
		status string
		answer int
		want   string
	}{
		"completed":                   {MovedOutside, "completed", 201, "decline"},
		"expired":                     {MovedOutside, "expired", 201, "none"},
		"expired, and declined":       {MovedOutside, "expired", 402, "decline"},
		"expired, for another reason": {LookupsExhausted, "expired", 201, "release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			l, later := aDeadLetter(), aDeadLetter()
			l.Kind, later.Subject = c.kind, l.Subject
			if c.kind == MovedOutside {
				l.Evidence = moneyMoved
			}
			o.keyAsIs(*l.About, *l.Subject, c.status)
			o.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
			o.exec("UPDATE idempotency_keys SET response_status = $1", c.answer)
			o.put(l)
			if hold := o.hold(); hold != c.want {
				t.Errorf("the hold is %s", hold)
			}
			o.put(later)
			if _, err := o.resolve(later.ID, 1, Dismiss); err != nil {
				t.Fatal(err)
			}
			if hold := o.hold(); hold != c.want {
				t.Errorf("after a decision about another dead letter, the hold is %s", hold)
			}
		})
	}
}

// A key that was deleted is held by its tombstone: by money that we may have moved, and by nothing else.
func TestDeletedKeyIsHeldByItsTombstone(t *testing.T) {
	t.Parallel()
	mine := aDeadLetter()
	mine.Evidence = moneyMoved
	same, nothing, outside := mine, mine, mine
	same.ID, same.Kind = uuid.Must(uuid.NewV7()), LookupsExhausted
	nothing.ID, nothing.Kind, nothing.Evidence = uuid.Must(uuid.NewV7()), LookupsExhausted, []byte("{}")
	outside.ID, outside.Kind = uuid.Must(uuid.NewV7()), MovedOutside
	others := otherThan(mine)
	for name, c := range map[string]struct {
		other DeadLetter
		want  string // the hold by this one alone
	}{
		"of the key":         {same, "decline"},
		"without money":      {nothing, "none"},
		"what others moved":  {outside, "none"},
		"of another tenant":  {others["tenant"], "none"},
		"of another request": {others["operation"], "none"},
		"of another key":     {others["key"], "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			wantHold := func(when, want string) {
				t.Helper()
				hold := pgtest.Value[string](t, o.pool, "SELECT dead_letter_hold FROM idempotency_key_tombstones")
				if hold != want {
					t.Errorf("%s, the hold is %s", when, hold)
				}
			}
			o.exec("INSERT INTO idempotency_key_tombstones (tenant_id, operation, key, generation) VALUES ($1, $2, $3, 1)",
				mine.About.Tenant, mine.About.Operation, mine.About.Key)
			o.put(c.other)
			wantHold("with the other open", c.want)
			o.put(mine)
			if _, err := o.resolve(c.other.ID, 1, Dismiss); err != nil {
				t.Fatal(err)
			}
			wantHold("with the other closed", "decline")
			if _, err := o.resolve(mine.ID, 1, Dismiss); err != nil {
				t.Fatal(err)
			}
			wantHold("with both closed", "none")
		})
	}
}

// A decision about one generation says nothing about the next one, whose lookups were rare while it was held.
func TestDecisionWakesTheKeyOfAnotherGenerationAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit   func(*About)
		status string
		woken  bool
		whole  bool // the dead letter names no payment, as after a restore
	}{
		"another generation":            {func(a *About) { a.Generation++ }, "unknown", true, false},
		"its own":                       {func(*About) {}, "unknown", false, false},
		"another generation, completed": {func(a *About) { a.Generation++ }, "completed", false, false},
		"its own, a payment that the case does not name": {func(*About) {}, "unknown", true, true},
		"another tenant": {func(a *About) { a.Tenant = "globex"; a.Generation++ }, "unknown", false, false},
		"another operation": {func(a *About) { a.Operation = "POST /refunds"; a.Generation++ }, "unknown",
			false, false},
		"another key": {func(a *About) { a.Key += "0"; a.Generation++ }, "unknown", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			l := aDeadLetter()
			about := *l.About
			c.edit(&about)
			o.keyAsIs(about, *l.Subject, c.status)
			if c.whole {
				l.Subject = nil
			}
			o.exec("UPDATE idempotency_keys SET reconcile_after = now() + interval '1 hour' WHERE status = 'unknown'")
			o.put(l)
			if _, err := o.resolve(l.ID, 1, Dismiss); err != nil {
				t.Fatal(err)
			}
			due := pgtest.Value[bool](t, o.pool, "SELECT coalesce(reconcile_after <= payonce_now(), false) FROM idempotency_keys")
			if due != c.woken {
				t.Errorf("due is %t", due)
			}
		})
	}
}

// A job that is given up holds its own key, and keeps nobody from another key: not even while its transaction lasts.
func TestDiscardedJobHoldsItsOwnKeyAlone(t *testing.T) {
	t.Parallel()
	mine := aDeadLetter()
	for name, subject := range map[string]*uuid.UUID{"with its payment": mine.Subject, "without a payment": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			o.keyAsIs(*mine.About, *mine.Subject, "unknown")
			others := otherThan(mine)
			for _, part := range []string{"tenant", "operation", "key"} {
				o.keyAsIs(*others[part].About, *others[part].Subject, "unknown")
			}
			tx := pgtest.Begin(t, o.pool)
			pgtest.Exec(t, tx, discard, o.job(*mine.About, subject, 3))
			for _, part := range []string{"tenant", "operation", "key"} {
				about := others[part].About
				if _, err := o.pool.Exec(t.Context(), `SELECT FROM idempotency_keys
					WHERE tenant_id = $1 AND operation = $2 AND key = $3 FOR NO KEY UPDATE NOWAIT`,
					about.Tenant, about.Operation, about.Key); err != nil {
					t.Errorf("a key that differs in its %s is locked: %v", part, err)
				}
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if hold := o.holdOf(mine); hold != "expiry" {
				t.Errorf("the key's hold is %s", hold)
			}
			for _, part := range []string{"tenant", "operation", "key"} {
				if hold := o.holdOf(others[part]); hold != "none" {
					t.Errorf("a key that differs in its %s is held: %s", part, hold)
				}
			}
		})
	}
}

// A job that will run again is no case, nor is a job of the schedule, which has one attempt. And what happens to the
// row of a job that was given up does not open a case that an operator has closed.
func TestOnlyTheEndOfAJobIsACase(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	id := o.job(*l.About, l.Subject, 3)
	o.exec("UPDATE river_job SET state = 'retryable' WHERE id = $1", id)
	o.exec(discard, o.job(*of(2).About, l.Subject, 1))
	if n := len(o.open()); n != 0 {
		t.Fatalf("%d dead letters are open before a job has ended", n)
	}
	o.exec(discard, id)
	open := o.open()
	if len(open) != 1 {
		t.Fatalf("%d dead letters are open", len(open))
	}
	if _, err := o.resolve(open[0].ID, 1, Dismiss); err != nil {
		t.Fatal(err)
	}
	o.exec("UPDATE river_job SET metadata = '{}' WHERE id = $1", id)
	if n := len(o.open()); n != 0 {
		t.Errorf("a case that was closed is open again")
	}
}
