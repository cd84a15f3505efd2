package deadletters

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestResolutionIsKeptWithItsActorReasonAndAuditRow(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	o.put(l)
	resolved, err := o.resolve(l.ID, 1, Executed)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Get(t.Context(), o.db.Reader(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resolved, read, cmpopts.IgnoreFields(DeadLetter{}, "Age")); diff != "" {
		t.Error(diff)
	}
	r := read.Resolution
	if read.Version != 2 || r == nil || r.Action != Executed || r.Actor != "ann" || r.Reason != "seen to it" ||
		r.At.IsZero() {
		t.Fatalf("dead letter is %+v, resolution %+v", read, r)
	}
	want := []AuditEntry{{Version: 1, Actor: "ann", Action: Executed, Reason: "seen to it", Outcome: "done"}}
	if diff := cmp.Diff(want, o.trail(l.ID), cmpopts.IgnoreFields(AuditEntry{}, "At")); diff != "" {
		t.Error(diff)
	}
}

func TestDeadLetterIsNotResolvedTwiceNorUnderAnotherVersion(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	o.put(l)
	for _, version := range []int32{0, 2} {
		if _, err := o.resolve(l.ID, version, Dismiss); !errors.Is(err, ErrConflict) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	if _, err := o.resolve(l.ID, 1, Dismiss); err != nil {
		t.Fatal(err)
	}
	for _, version := range []int32{1, 2} {
		if _, err := o.resolve(l.ID, version, Retry); !errors.Is(err, ErrConflict) {
			t.Errorf("once resolved, version %d: %v", version, err)
		}
	}
	if _, err := o.resolve(uuid.Must(uuid.NewV7()), 1, Dismiss); !errors.Is(err, ErrNoDeadLetter) {
		t.Errorf("no dead letter: %v", err)
	}
	if trail := o.trail(l.ID); len(trail) != 1 {
		t.Errorf("%d audit rows for one resolution", len(trail))
	}
}

func TestOfManyOperatorsExactlyOneWins(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	o.put(l)
	results := make(chan error, 8)
	var all sync.WaitGroup
	for range cap(results) {
		all.Go(func() {
			_, err := o.resolve(l.ID, 1, Dismiss)
			results <- err
		})
	}
	all.Wait()
	close(results)
	won := 0
	for err := range results {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, ErrConflict):
			t.Errorf("loser was told %v", err)
		}
	}
	if won != 1 || len(o.trail(l.ID)) != 1 {
		t.Fatalf("%d have won, %d audit rows", won, len(o.trail(l.ID)))
	}
}

func TestRefusalIsAuditedAndChangesNothing(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	o.put(l)
	refuse := func(detail string) error {
		return o.db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			return AuditRefusedTx(ctx, tx, Decision{
				DeadLetter: l.ID, Version: 7, Action: NotExecuted, Actor: "ann", Reason: "customer says so",
			}, detail)
		})
	}
	if err := refuse("the PSP knows it"); err != nil {
		t.Fatal(err)
	}
	if err := refuse(strings.Repeat("é", 501)); err != nil {
		t.Fatal(err)
	}
	want := []AuditEntry{
		{Version: 7, Actor: "ann", Action: NotExecuted, Reason: "customer says so", Outcome: "refused",
			Detail: "the PSP knows it"},
		{Version: 7, Actor: "ann", Action: NotExecuted, Reason: "customer says so", Outcome: "refused",
			Detail: strings.Repeat("é", 500)},
	}
	if diff := cmp.Diff(want, o.trail(l.ID), cmpopts.IgnoreFields(AuditEntry{}, "At")); diff != "" {
		t.Error(diff)
	}
	if open := o.list(Filter{Status: OpenStatus, Limit: MaxPage}).DeadLetters; len(open) != 1 || open[0].Version != 1 {
		t.Errorf("open are %+v", open)
	}
}

// Not only the program keeps to it: nor can a script or a person at a psql prompt.
func TestHistoryIsAppendOnly(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l, still := of(1), of(2)
	o.put(l, still)
	if _, err := o.resolve(l.ID, 1, Dismiss); err != nil {
		t.Fatal(err)
	}
	const resolved = ` status = 'resolved', resolved_at = now(), action = 'dismiss', actor = 'x', resolution_reason = 'x' `
	for sql, constraint := range map[string]string{
		"DELETE FROM dead_letters":                                        "history_is_append_only",
		"TRUNCATE dead_letters, operator_actions":                         "history_is_append_only",
		"UPDATE operator_actions SET actor = 'bob'":                       "history_is_append_only",
		"DELETE FROM operator_actions":                                    "history_is_append_only",
		"UPDATE dead_letters SET version = version + 1":                   "dead_letters_resolved_once",
		"UPDATE dead_letters SET actor = 'bob' WHERE status = 'resolved'": "dead_letters_resolved_once",
		"UPDATE dead_letters SET " + resolved + " WHERE status = 'open'":  "dead_letters_resolved_once",
		"UPDATE dead_letters SET version = version + 1, resolution_reason = 'x' " +
			"WHERE status = 'resolved'": "dead_letters_resolved_once",
		"UPDATE dead_letters SET version = 3, " + resolved +
			"WHERE version = 1": "dead_letters_resolved_once",
		"UPDATE dead_letters SET version = 2, reason = 'x', " + resolved +
			"WHERE version = 1": "dead_letters_resolved_once",
		"UPDATE dead_letters SET version = 2, key = 'x', " + resolved +
			"WHERE version = 1": "dead_letters_resolved_once",
		"UPDATE dead_letters SET version = 2, subject = NULL, " + resolved +
			"WHERE version = 1": "dead_letters_resolved_once",
		"UPDATE dead_letters SET version = 2, status = 'resolved' WHERE version = 1": "dead_letters_resolution_iff_resolved",
		"UPDATE dead_letters SET version = 2, " + resolved +
			", finding = 'x' WHERE version = 1": "dead_letters_resolved_once",
		"UPDATE dead_letters SET version = 2," + strings.Replace(resolved, "'dismiss'", "'forget'", 1) +
			"WHERE version = 1": "dead_letters_action_known",
	} {
		_, err := o.pool.Exec(t.Context(), sql)
		if !postgres.Violates(err, constraint) {
			t.Errorf("%s: %v, want %s", sql, err, constraint)
		}
	}
}

// otherThan are dead letters that differ from one in a single part of what they are about.
func otherThan(mine DeadLetter) map[string]DeadLetter {
	all := map[string]DeadLetter{}
	for name, edit := range map[string]func(*DeadLetter){
		"tenant":     func(l *DeadLetter) { l.About.Tenant = "globex" },
		"operation":  func(l *DeadLetter) { l.About.Operation = "POST /refunds" },
		"key":        func(l *DeadLetter) { l.About.Key += "0" },
		"generation": func(l *DeadLetter) { l.About.Generation++ },
		"subject":    func(l *DeadLetter) { *l.Subject = uuid.Must(uuid.NewV7()) },
	} {
		l, about, subject := mine, *mine.About, *mine.Subject
		l.ID, l.Kind, l.About, l.Subject = uuid.Must(uuid.NewV7()), LookupsExhausted, &about, &subject
		edit(&l)
		l.Finding = about.KeyFinding(subject)
		all[name] = l
	}
	return all
}

// What evidence answers is one finding of one kind, once.
func TestEvidenceClosesItsOwnFindingOnce(t *testing.T) {
	t.Parallel()
	o := setup(t)
	mine := aDeadLetter()
	otherKind, otherFinding := mine, mine
	otherKind.ID, otherKind.Kind = uuid.Must(uuid.NewV7()), MissingAtPSP
	otherFinding.ID, otherFinding.Finding = uuid.Must(uuid.NewV7()), "another"
	o.put(mine, otherKind, otherFinding)
	for range 2 {
		if err := o.db.Pipeline(t.Context(), Answer(mine.Kind, mine.Finding, "statement", "it is listed")); err != nil {
			t.Fatal(err)
		}
	}
	if open, trail := len(o.open()), len(o.trail(mine.ID)); open != 2 || trail != 1 {
		t.Errorf("%d are open, and %d lines are in the trail", open, trail)
	}
}

func TestOtherDeadLetterAboutTheSameKeyIsNamed(t *testing.T) {
	t.Parallel()
	o := setup(t)
	mine := aDeadLetter()
	o.put(mine)
	ask := func() *uuid.UUID {
		open := OnKey{Other: &mine.ID} // which is not the answer
		if err := o.db.Pipeline(t.Context(), OpenOnKey(mine, &open)); err != nil {
			t.Fatal(err)
		}
		return open.Other
	}
	for name, elsewhere := range otherThan(mine) {
		o.put(elsewhere)
		if id := ask(); id != nil {
			t.Fatalf("%s is about another %s", id, name)
		}
	}
	failedJob, about, other := mine, mine, mine
	failedJob.ID, failedJob.Kind = uuid.Must(uuid.NewV7()), JobDiscarded
	about.ID, about.Kind, about.Subject = uuid.Must(uuid.NewV7()), PSPMemoryOver, nil
	other.ID, other.Kind = uuid.Must(uuid.NewV7()), LookupsExhausted
	o.put(failedJob)
	if id := ask(); id != nil {
		t.Fatalf("%s is a failed job, which needs no decision", id)
	}
	for name, l := range map[string]DeadLetter{"about the whole key": about, "about the same payment": other} {
		o.put(l)
		if id := ask(); id == nil || *id != l.ID {
			t.Fatalf("%s: found is %v", name, id)
		}
		if _, err := o.resolve(l.ID, 1, Dismiss); err != nil {
			t.Fatal(err)
		}
		if id := ask(); id != nil {
			t.Fatalf("%s is resolved", id)
		}
	}
	mine.Subject = nil // about the key, whatever it stands for
	if id := ask(); id == nil {
		t.Fatal("a dead letter about another payment under this key is not found")
	}
}

func TestDecisionAboutOneFindingIsNoneAboutAnother(t *testing.T) {
	t.Parallel()
	o := setup(t)
	one, other := aDeadLetter(), aDeadLetter()
	o.put(one)
	if _, err := o.resolve(one.ID, 1, Dismiss); err != nil {
		t.Fatal(err)
	}
	o.put(other)
	if got := o.open(); len(got) != 1 || got[0].ID != other.ID {
		t.Fatalf("open are %+v", got)
	}
}

func TestOtherDeadLetterThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec("ALTER TABLE dead_letters RENAME TO gone")
	pgtest.WantReturned(t, o.db, "OpenOnKey", OpenOnKey(aDeadLetter(), &OnKey{}))
}

// An operator who is told of a decision that is not stored leaves the customer's payment as it is.
func TestStatementThatFailsIsNoDecisionAndNoEmptyList(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	o.keyAsIs(*l.About, *l.Subject, "unknown")
	o.put(l)
	pool, outage := pgtest.WithOutage(t, o.pool)
	o.db = postgres.Wrap(pool, 0)
	for statement, c := range map[string]struct {
		says string
		ask  func() error
	}{
		"ResolveDeadLetter": {"resolve dead letter", func() error { return o.decide(l.ID, 1) }},
		"AuditRefused":      {"audit refusal", func() error { return o.refuse(l.ID) }},
		"ListActions": {"read audit trail", func() error {
			_, err := AuditTrail(t.Context(), o.db, l.ID)
			return err
		}},
		"GetDeadLetter": {"read dead letter", func() error {
			_, err := Get(t.Context(), o.db.Reader(), l.ID)
			return err
		}},
		"CountOpen": {"count open dead letters", func() error {
			_, err := Summarize(t.Context(), o.db)
			return err
		}},
		"ListDeadLetters": {"list dead letters", func() error {
			_, err := List(t.Context(), o.db, Filter{})
			return err
		}},
	} {
		outage.On("name: "+statement, 1)
		if err := c.ask(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	outage.Over()
	o.exec("ALTER TABLE idempotency_keys RENAME dead_letter_hold TO gone")
	if err := o.decide(l.ID, 1); err == nil || !strings.Contains(err.Error(), "write hold of key") {
		t.Errorf("a decision without the hold: %v", err)
	}
	o.exec("ALTER TABLE idempotency_keys RENAME gone TO dead_letter_hold")
	if trail := o.trail(l.ID); len(trail) != 0 || len(o.open()) != 1 || o.hold() != "release" {
		t.Errorf("after the failures, the hold is %s, the trail %v", o.hold(), trail)
	}
}

func (f fixture) decide(id uuid.UUID, version int32) error {
	_, err := f.resolve(id, version, Executed)
	return err
}

func (f fixture) refuse(id uuid.UUID) error {
	return f.db.Transact(f.t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return AuditRefusedTx(ctx, tx, Decision{DeadLetter: id, Version: 1, Action: Executed, Actor: "ann",
			Reason: "seen to it"}, "too late")
	})
}
