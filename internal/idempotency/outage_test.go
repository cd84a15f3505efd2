package idempotency

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// A caller without an error believes that there is no such key, that nothing is due, or that it is done.
func TestStoreThatFailsIsNoEmptyStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tx := pgtest.Begin(t, b.pool)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() error{
		"Undecided":  func() error { _, err := b.keys.Undecided(ctx, []Ref{b.ref}); return err },
		"Events":     func() error { _, err := b.keys.Events(ctx, b.ref); return err },
		"KeyCounts":  func() error { _, err := b.keys.KeyCounts(ctx); return err },
		"Find":       func() error { _, err := b.keys.Find(ctx, b.ref); return err },
		"Expire":     func() error { _, err := b.keys.Expire(ctx, 1); return err },
		"Delete":     func() error { _, err := b.keys.Delete(ctx, 1); return err },
		"SweepTx":    func() error { _, err := b.keys.SweepTx(t.Context(), tx, 1, time.Minute); return err },
		"ClaimDueTx": func() error { _, err := b.keys.ClaimDueTx(t.Context(), tx, 1, time.Minute); return err },
		"expireTx":   func() error { _, err := b.keys.expireTx(t.Context(), tx, 1); return err },
		"deleteTx":   func() error { _, err := b.keys.deleteTx(t.Context(), tx, 1); return err },
	} {
		if err := ask(); err == nil {
			t.Errorf("%s has no error", name)
		}
	}
}

func TestCallReturnsTheErrorOfItsStatement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease, c := b.putInto(InProgressStatus), b.reservation()
	var decisions []Decision
	var results []GuardResult
	var d Decision
	var passed GuardResult
	var view KeyView
	b.exec("ALTER TABLE idempotency_keys RENAME TO gone")
	for name, call := range map[string]postgres.Call{
		"Reserve":  b.keys.reserve(tries(c), &decisions),
		"Retake":   b.keys.retake(c, snapshot{}, &d),
		"Complete": b.keys.Complete([]Completion{{Lease: lease, Response: answer("done")}}, &results),
		"Resolve": b.keys.Resolve([]Resolution{{Execution: lease.Execution(), Seen: UnknownStatus,
			Note: found(), Response: answer("done")}}, &results),
		"Release": b.keys.Release(lease, "never sent", false, &passed),
		"Lose":    b.keys.Lose(lease, "no answer", nil, false, &passed),
		"LookIn":  b.keys.LookIn(b.ref, &view),
		"Note":    b.keys.Note(lease.Execution(), found()),
		"LockKey": b.keys.LockKey(b.ref, 1),
	} {
		pgtest.WantReturned(t, b.db, name, call)
	}
}

// Each bound is where a key could be executed twice.
func TestTermsAreRefusedAtTheirBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*Terms)
		ok   bool
	}{
		"as they are":                         {func(*Terms) {}, true},
		"no lease":                            {func(t *Terms) { t.Lease, t.GracePeriod = 0, 0 }, false},
		"grace period as long as the lease":   {func(t *Terms) { t.GracePeriod = t.Lease }, true},
		"grace period shorter":                {func(t *Terms) { t.GracePeriod = t.Lease - 1 }, false},
		"memory longer than the grace period": {func(t *Terms) { t.PSPMemory = t.GracePeriod + 1 }, true},
		"memory as long as the grace period":  {func(t *Terms) { t.PSPMemory = t.GracePeriod }, false},
		"retention as long as the memory":     {func(t *Terms) { t.Retention = t.PSPMemory }, true},
		"retention shorter":                   {func(t *Terms) { t.Retention = t.PSPMemory - 1 }, false},
		"lookup at once":                      {func(t *Terms) { t.FirstLookup = 0 }, true},
		"lookup before":                       {func(t *Terms) { t.FirstLookup = -1 }, false},
		"no audit":                            {func(t *Terms) { t.Audit = 0 }, true},
		"audit of the future":                 {func(t *Terms) { t.Audit = -1 }, false},
	} {
		terms := testTerms()
		c.edit(&terms)
		if err := terms.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The lines before the last 200 are not read. One of them may be the completion, so none is made up.
func TestTimelineThatWasCutOffGetsNoCompletion(t *testing.T) {
	t.Parallel()
	at := time.Now()
	row := KeyRow{Status: CompletedStatus, Generation: 1, Attempt: 1, Created: at, Finished: &at, Response: &Response{}}
	for lines, want := range map[int]int{MaxEvents - 1: MaxEvents + 1, MaxEvents: MaxEvents + 1} {
		written := make([]Event, lines)
		for i := range written {
			written[i] = Event{At: Time(at), From: UnknownStatus, To: UnknownStatus, Generation: 1}
		}
		if n := len(row.Timeline(written)); n != want {
			t.Errorf("%d lines become %d, want %d", lines, n, want)
		}
	}
}

// A walk searches again only for what others have locked. Otherwise it would hide an error, or search for nothing.
func TestWalkEndsWithItsErrorAndWithItsLastKey(t *testing.T) {
	t.Parallel()
	errBroken, one := errors.New("broken"), []candidate{{TenantID: "acme", Operation: "op", Key: "key"}}
	for name, c := range map[string]struct {
		seen   []candidate
		taken  int
		found  error
		failed error
		finds  int
	}{
		"all are taken":    {seen: one, taken: 1, finds: 1},
		"nothing is due":   {finds: 1},
		"the search fails": {found: errBroken, finds: 1},
		"the take fails":   {seen: one, failed: errBroken, finds: 1},
		"another has it":   {seen: one, finds: 2},
	} {
		finds := 0
		find := func(context.Context, int32) ([]candidate, error) {
			finds++
			return c.seen, c.found
		}
		n, err := walkTx(t.Context(), 1, find, func(context.Context, string, []string, []string) (int, error) {
			return c.taken, c.failed
		})
		if n != c.taken || finds != c.finds || !errors.Is(err, cmp.Or(c.found, c.failed)) {
			t.Errorf("%s: %d taken in %d searches, %v", name, n, finds, err)
		}
	}
}

// A statement about the keys of one tenant must not get those of another one.
func TestWalkTakesTheKeysOfEachTenantByThemselves(t *testing.T) {
	t.Parallel()
	seen := []candidate{{TenantID: "globex", Operation: "op", Key: "a"},
		{TenantID: "acme", Operation: "op", Key: "b"}, {TenantID: "globex", Operation: "op", Key: "c"}}
	var got []string
	n, err := walkTx(t.Context(), 3, func(context.Context, int32) ([]candidate, error) { return seen, nil },
		func(_ context.Context, tenant string, _, keys []string) (int, error) {
			got = append(got, tenant+": "+strings.Join(keys, " "))
			return len(keys), nil
		})
	if n != 3 || err != nil || !slices.Equal(got, []string{"acme: b", "globex: a c"}) {
		t.Errorf("%d taken, %v: %q", n, err, got)
	}
	failed := errors.New("broken")
	n, err = walkTx(t.Context(), 3, func(context.Context, int32) ([]candidate, error) { return seen, nil },
		func(_ context.Context, tenant string, _, keys []string) (int, error) {
			if tenant == "acme" {
				return 0, failed
			}
			return len(keys), nil
		})
	if n != 0 || !errors.Is(err, failed) {
		t.Errorf("after the failure of one tenant: %d taken, %v", n, err)
	}
}

// A deletion that cannot ask for open dead letters deletes nothing.
func TestDeletionThatCannotAskForDeadLettersDeletesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(ExpiredStatus)
	b.outlive()
	pool, outage := pgtest.WithOutage(t, b.pool)
	keys := New(postgres.Wrap(pool, patience), testTerms(), time.Now)
	outage.On("name: FindDeadLettered", 1)
	if n, err := keys.Delete(t.Context(), 10); err == nil || !b.exists() {
		t.Errorf("%d keys deleted: %v", n, err)
	}
}
