package operator

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/reconcile"
	"payonce/test/pgproxy"
)

func (f *fixture) closeAnswered() int {
	f.t.Helper()
	closed, err := f.ops.CloseAnswered(f.t.Context(), 100)
	if err != nil {
		f.t.Fatal(err)
	}
	return closed
}

// lookUp has the reconciler look up the key of a dead letter.
func (f *fixture) lookUp(l deadletters.DeadLetter) {
	f.t.Helper()
	r := &reconcile.Reconciler{Config: reconcile.Config{Payments: f.service}}
	_, err := r.LookUpDue(f.t.Context(), idempotency.Due{
		Ref: idempotency.StoredRef(l.About.Tenant, l.About.Operation, l.About.Key), Generation: l.About.Generation,
		Subject: *l.Subject,
	}, judge.LookupPolicy{Budget: 10, Base: time.Second, Cap: time.Minute, Recheck: time.Hour})
	if err != nil {
		f.t.Fatal(err)
	}
}

// Evidence completes the key. The dead letter that asked whether it was executed is closed, and audited as that.
func TestDeadLetterIsClosedWhenItsKeyWasCompletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, kind := range []deadletters.Kind{deadletters.LookupsExhausted, deadletters.PSPMemoryOver,
		deadletters.JobDiscarded} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			o.lossy.Store(true)
			o.pay("pm_ok")
			o.lossy.Store(false)
			l := o.put(o.about(kind, `{}`))
			if n := o.closeAnswered(); n != 0 {
				t.Fatalf("%d dead letters of an unknown key are closed", n)
			}
			o.lookUp(l)
			if c := o.show(l.ID); c.Key != idempotency.CompletedStatus || c.Resolution != nil {
				t.Fatalf("case is %+v", c)
			}
			if n := o.closeAnswered(); n != 1 {
				t.Fatalf("%d dead letters are closed", n)
			}
			c := o.show(l.ID)
			if r := c.Resolution; r == nil || r.Action != deadletters.Answered || r.Actor != "reconciler" ||
				!strings.Contains(r.Reason, "completed") || len(c.AuditTrail) != 1 ||
				c.AuditTrail[0].Outcome != "done" {
				t.Errorf("case is %+v", c)
			}
			if hold := scan[string](o, "SELECT dead_letter_hold::text FROM idempotency_keys"); hold != "none" {
				t.Errorf("the key is still held: %s", hold)
			}
			if n := o.closeAnswered(); n != 0 {
				t.Errorf("%d dead letters are closed once more", n)
			}
		})
	}
}

// The question of another kind is not whether the key was executed.
func TestDeadLetterThatItsKeyDoesNotAnswerStaysOpen(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	for _, kind := range deadletters.Kinds() {
		switch kind {
		case deadletters.LookupsExhausted, deadletters.PSPMemoryOver, deadletters.JobDiscarded:
		default:
			o.put(o.about(kind, `{}`))
		}
	}
	o.put(alone(deadletters.JobDiscarded, `{}`))
	if n := o.closeAnswered(); n != 0 {
		t.Errorf("%d dead letters are closed", n)
	}
}

// The dead letter is about the first payment of the key. The second one, which is completed, says nothing about it.
func TestDeadLetterAboutAnEarlierPaymentStaysOpen(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	l := o.put(o.about(deadletters.LookupsExhausted, `{}`))
	o.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	o.exec("UPDATE idempotency_keys SET generation = 2")
	if n := o.closeAnswered(); n != 0 || o.show(l.ID).Resolution != nil {
		t.Errorf("%d dead letters are closed", n)
	}
}

// While the dead letter is found and not yet closed, an operator decides. Nothing is closed twice.
func TestOperatorWinsOverTheReconciler(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	l := o.put(o.about(deadletters.LookupsExhausted, `{}`))
	far, proxy := o.behindProxy()
	locking := proxy.On("LockKey", pgproxy.HoldBefore)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if closed, err := far.CloseAnswered(t.Context(), 100); err != nil || closed != 0 {
			t.Errorf("closed are %d, %v", closed, err)
		}
	}()
	locking.Await(t)
	o.done(decision(l, deadletters.Dismiss))
	locking.Release()
	<-over
	if c := o.show(l.ID); c.Resolution.Action != deadletters.Dismiss || len(c.AuditTrail) != 1 {
		t.Errorf("case is %+v", c)
	}
}

// The key may move between the search and the lock. What counts is the key as it is locked.
func TestKeyIsLookedAtOnceMoreBeforeItsDeadLetterIsClosed(t *testing.T) {
	t.Parallel()
	o := setup(t)
	var log bytes.Buffer
	o.with(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	l := o.lost("pm_ok")
	closed, err := o.ops.closeAnswered(t.Context(), l.ID)
	if err != nil || closed || o.show(l.ID).Resolution != nil || log.Len() > 0 {
		t.Errorf("the dead letter of an unknown key is closed: %t, %v\n%s", closed, err, &log)
	}
	o.lookUp(l)
	closed, err = o.ops.closeAnswered(t.Context(), l.ID)
	if err != nil || !closed || !strings.Contains(log.String(), "dead_letter="+l.ID.String()) {
		t.Errorf("the dead letter of a completed key is closed: %t, %v\n%s", closed, err, &log)
	}
}

// After a dead letter was answered, the same finding is a new case: nobody has decided about it.
func TestAnsweredFindingIsANewCaseLater(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	l := o.put(o.about(deadletters.LookupsExhausted, `{}`))
	if n := o.closeAnswered(); n != 1 {
		t.Fatalf("%d dead letters are closed", n)
	}
	again := l
	again.ID = uuid.Must(uuid.NewV7())
	o.put(again)
	if n := scan[int](o, "SELECT count(*) FROM dead_letters WHERE status = 'open'"); n != 1 {
		t.Errorf("%d dead letters are open", n)
	}
}

// What is found and cannot be closed is found again in each run. If it took up the run's limit, nothing would be
// closed.
func TestOnlyAnsweredDeadLettersTakeUpTheLimitOfARun(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	open := idempotency.StoredRef("acme", payment.CreateOperation, "an-open-key-000001")
	o.keyAsIs(ref, idempotency.CompletedStatus, subject)
	o.keyAsIs(open, idempotency.UnknownStatus, subject)
	for _, l := range aboutOthers(ref, subject) {
		o.put(l)
	}
	o.put(aboutKey(open, &subject))
	ofAnotherKind := aboutKey(ref, &subject)
	ofAnotherKind.Kind = deadletters.ContradictsCompleted
	o.put(ofAnotherKind)
	o.done(decision(o.put(aboutKey(ref, &subject)), deadletters.Dismiss))

	answered := []deadletters.DeadLetter{o.put(aboutKey(ref, &subject)), o.put(aboutKey(ref, nil))}
	for range answered {
		if closed, err := o.ops.CloseAnswered(t.Context(), 1); closed != 1 || err != nil {
			t.Errorf("%d dead letters are closed, %v", closed, err)
		}
	}
	for _, l := range answered {
		if r := o.show(l.ID).Resolution; r == nil || r.Action != deadletters.Answered {
			t.Errorf("the resolution is %+v", r)
		}
	}
}

// The page of a dead letter that is about to be closed says so, and asks for no decision.
func TestOpenDeadLetterOfACompletedKeyIsAnswered(t *testing.T) {
	t.Parallel()
	entry := func(kind deadletters.Kind, key idempotency.Status) Entry {
		return Entry{DeadLetter: deadletters.DeadLetter{Kind: kind}, Key: key}
	}
	resolved := entry(deadletters.LookupsExhausted, idempotency.CompletedStatus)
	resolved.Resolution = &deadletters.Resolution{}
	for name, row := range map[string]struct {
		entry Entry
		want  bool
	}{
		"completed":       {entry(deadletters.LookupsExhausted, idempotency.CompletedStatus), true},
		"a failed job":    {entry(deadletters.JobDiscarded, idempotency.FailedRetryableStatus), true},
		"unknown":         {entry(deadletters.LookupsExhausted, idempotency.UnknownStatus), false},
		"another kind":    {entry(deadletters.ContradictsCompleted, idempotency.CompletedStatus), false},
		"resolved before": {resolved, false},
	} {
		if got := row.entry.Answered(); got != row.want {
			t.Errorf("%s: answered is %t", name, got)
		}
	}
}
