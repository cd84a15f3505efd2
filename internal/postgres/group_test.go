package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// row is what a member of the tests' groups writes.
type row struct {
	key  string
	name string // "panic" panics; "wait" waits for the advisory lock 2
}

// groups has two Groups over one table, and a third step that holds a slot for as long as the test likes.
type groups struct {
	*postgres.DB
	t           *testing.T
	step, other *postgres.Group[row, string]
	held        pgx.Tx // holds the advisory lock that the first transaction waits for
	first       chan error

	mu   sync.Mutex
	sent [][]string // the names of each transaction that was tried, by step
}

// oneSlot opens groups whose only slot is taken until free.
func oneSlot(t *testing.T, edit ...func(*postgres.Limits)) *groups {
	t.Helper()
	l := limits()
	l.Groups = postgres.GroupLimits{AtOnce: 1, Members: 64}
	for _, e := range edit {
		e(&l)
	}
	g := &groups{DB: open(t, l), t: t, first: make(chan error, 1)}
	run(t, g.DB, "CREATE TABLE rows (n bigserial, name text, CONSTRAINT rows_name_unique UNIQUE (name))")
	g.step, g.other = postgres.NewGroup(g.DB, keyOf, g.write), postgres.NewGroup(g.DB, keyOf, g.write)
	g.hold()
	return g
}

func keyOf(r row) string { return r.key }

// write is the step: it inserts a row for each member, and returns what it has written.
func (g *groups) write(ctx context.Context, members []row) ([]string, error) {
	var names, written []string
	for _, m := range members {
		names = append(names, m.name)
	}
	g.mu.Lock()
	g.sent = append(g.sent, names)
	g.mu.Unlock()
	var calls []postgres.Call
	for _, name := range names {
		switch name {
		case "panic":
			panic("a bug")
		case "wait":
			calls = append(calls, execute("SELECT pg_advisory_xact_lock(2)"))
		}
		calls = append(calls, func(ctx context.Context, q postgres.Statement) error {
			var w string
			err := q.QueryRow(ctx, "INSERT INTO rows (name) VALUES ($1) RETURNING name", name).Scan(&w)
			if err == nil {
				written = append(written, w)
			}
			return err
		})
	}
	err := g.GroupPipeline(ctx, len(members), calls...)
	return written, err
}

// hold takes the slot by a transaction that waits for a lock of the test.
func (g *groups) hold() {
	g.t.Helper()
	g.held = g.lock(1)
	holder := postgres.NewGroup(g.DB, keyOf, func(ctx context.Context, members []row) ([]string, error) {
		return []string{""}, g.GroupPipeline(ctx, len(members), execute("SELECT pg_advisory_xact_lock(1)"))
	})
	go func() {
		_, err := holder.Do(g.t.Context(), row{})
		g.first <- err
	}()
	// By its slot it could not be seen: where slots are held for a moment only, that may be over before anybody looks.
	g.await(func() bool {
		return read[bool](g.t, g.DB, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
	})
}

// lock takes an advisory lock in a session of its own.
func (g *groups) lock(n int) pgx.Tx {
	g.t.Helper()
	tx := pgtest.Begin(g.t, pgtest.Connect(g.t, g.Pool().Config().ConnString()))
	pgtest.Exec(g.t, tx, "SELECT pg_advisory_xact_lock($1)", n)
	return tx
}

// await returns once something about the slots or their locks is so.
func (g *groups) await(so func() bool) {
	g.t.Helper()
	wait.Until(g.t, "a change of the slots, or of what waits for them", so)
}

func (g *groups) busy() int {
	busy, _ := g.CommitSlots()
	return busy
}

func (g *groups) waiting() int {
	_, waiting := g.CommitSlots()
	return waiting
}

// free lets the transaction in the slot end.
func (g *groups) free() {
	g.t.Helper()
	if err := g.held.Rollback(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	if err := <-g.first; err != nil {
		g.t.Fatal(err)
	}
}

// outcome is what a member was told.
type outcome struct {
	out string
	err error
}

// waits has a member wait for the slot, and returns when it does.
func (g *groups) waits(ctx context.Context, r row) <-chan outcome { return g.waitsFor(ctx, g.step, r) }

func (g *groups) waitsFor(ctx context.Context, step *postgres.Group[row, string], r row) <-chan outcome {
	g.t.Helper()
	before, done := g.waiting(), make(chan outcome, 1)
	go func() {
		out, err := step.Do(ctx, r)
		done <- outcome{out, err}
	}()
	g.await(func() bool { return g.waiting() == before+1 })
	return done
}

// called is a row whose key is its name.
func called(name string) row { return row{key: name, name: name} }

// all waits for members that must have written.
func (g *groups) all(done ...<-chan outcome) []string {
	g.t.Helper()
	var outs []string
	for _, d := range done {
		o := <-d
		if o.err != nil {
			g.t.Fatal(o.err)
		}
		outs = append(outs, o.out)
	}
	return outs
}

// transactions are those that were tried, such as "a b|c".
func (g *groups) transactions() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var each []string
	for _, names := range g.sent {
		each = append(each, strings.Join(names, " "))
	}
	return strings.Join(each, "|")
}

// committed is how many transactions have written the rows.
func (g *groups) committed() int {
	g.t.Helper()
	return read[int](g.t, g.DB, "SELECT count(DISTINCT xmin::text) FROM rows")
}

func TestThoseWhoWaitShareOneCommitInTheOrderOfTheirKeys(t *testing.T) {
	t.Parallel()
	g := oneSlot(t)
	names := []string{"c", "a", "e", "b", "d"}
	var waiting []<-chan outcome
	for _, name := range names {
		waiting = append(waiting, g.waits(t.Context(), called(name)))
	}
	g.free()
	if outs := g.all(waiting...); !slices.Equal(outs, names) {
		t.Fatalf("members %v were told what happened to %v", names, outs)
	}
	order := read[[]string](t, g.DB, "SELECT array_agg(name ORDER BY n) FROM rows")
	if want := []string{"a", "b", "c", "d", "e"}; g.committed() != 1 || !slices.Equal(order, want) {
		t.Fatalf("%d transactions, the rows were written in the order %v", g.committed(), order)
	}
	g.await(func() bool { return g.busy() == 0 && g.waiting() == 0 })
}

func TestWhoFindsASlotSendsAtOnce(t *testing.T) {
	t.Parallel()
	g := oneSlot(t, func(l *postgres.Limits) { l.Groups.AtOnce = 2 })
	if _, err := g.step.Do(t.Context(), called("a")); err != nil {
		t.Fatal(err)
	}
	g.free()
}

func TestWithoutGroupsNobodyWaits(t *testing.T) {
	t.Parallel()
	l := limits()
	l.Groups = postgres.GroupLimits{}
	db := open(t, l)
	step := postgres.NewGroup(db, keyOf, func(ctx context.Context, members []row) ([]string, error) {
		return make([]string, len(members)), db.GroupPipeline(ctx, len(members),
			execute("INSERT INTO notes VALUES (1)"))
	})
	if _, err := step.Do(t.Context(), called("a")); err != nil {
		t.Fatal(err)
	}
	if busy, _ := db.CommitSlots(); notes(t, db) != 1 || busy != 0 {
		t.Fatalf("%d rows, %d slots taken", notes(t, db), busy)
	}
}

// A statement over many rows would meet one row twice, and could not say which of the two members a result is for.
func TestTwoMembersWithOneKeyNeverShareAGroup(t *testing.T) {
	t.Parallel()
	g := oneSlot(t)
	waiting := []<-chan outcome{
		g.waits(t.Context(), row{"k", "first"}), g.waits(t.Context(), row{"l", "other"}),
		g.waits(t.Context(), row{"k", "second"}), g.waits(t.Context(), row{"k", "third"}),
	}
	g.free()
	outs := g.all(waiting...)
	if want := "first other|second|third"; g.transactions() != want ||
		!slices.Equal(outs, []string{"first", "other", "second", "third"}) {
		t.Fatalf("the transactions were %s, want %s; told %v", g.transactions(), want, outs)
	}
}

// Who waits longest goes first: the keys order the members of a group, and not those who wait.
func TestStepsTakeTurnsAndNeverShareAGroup(t *testing.T) {
	t.Parallel()
	g := oneSlot(t, func(l *postgres.Limits) { l.Groups.Members = 2 })
	var waiting []<-chan outcome
	for _, name := range []string{"d", "c", "b"} {
		waiting = append(waiting, g.waits(t.Context(), called(name)))
	}
	waiting = append(waiting, g.waitsFor(t.Context(), g.other, called("o")), g.waits(t.Context(), called("a")))
	g.free()
	g.all(waiting...)
	if want := "c d|o|a b"; g.transactions() != want {
		t.Fatalf("the transactions were %s, want %s", g.transactions(), want)
	}
}

// Somebody holds the rows of a few keys: an operator's session, another program. The payments of all others go on.
func TestTransactionThatIsHeldUpGivesItsSlotAway(t *testing.T) {
	t.Parallel()
	g := oneSlot(t, func(l *postgres.Limits) { l.Groups.Hold = 20 * time.Millisecond })
	for _, name := range []string{"a", "b", "c"} {
		if _, err := g.step.Do(t.Context(), called(name)); err != nil {
			t.Fatal(err)
		}
	}
	g.free()
	g.await(func() bool { return g.busy() == 0 })
	// A slot that was given away is not given back once more.
	g.hold()
	if _, err := g.step.Do(t.Context(), called("d")); err != nil {
		t.Fatal(err)
	}
	g.free()
	g.await(func() bool { return g.busy() == 0 })
}

// One member's row is held by somebody else. The others wait with it for a moment, and it alone for as long as it
// takes.
func TestGroupIsNotHeldUpByOneMembersLock(t *testing.T) {
	t.Parallel()
	g := oneSlot(t, func(l *postgres.Limits) {
		l.StatementTimeout, l.LockTimeout, l.Groups.LockTimeout = 0, 0, 50*time.Millisecond
	})
	elsewhere := g.lock(2)
	held := g.waits(t.Context(), called("wait"))
	other := g.waits(t.Context(), called("b"))
	g.free()
	g.all(other)
	select {
	case o := <-held:
		t.Fatalf("it did not wait for its lock: %v", o.err)
	default:
	}
	if err := elsewhere.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.all(held)
	if left := read[string](t, g.DB, "SELECT current_setting('lock_timeout')"); left != "0" {
		t.Fatalf("the session's own limit has become %s", left)
	}
}

// One member's error rolls the group back. The others must not notice, and it must hear of its own.
func TestGroupThatFailsIsTriedOneByOne(t *testing.T) {
	t.Parallel()
	g := oneSlot(t)
	run(t, g.DB, "INSERT INTO rows (name) VALUES ('taken')")
	first := g.waits(t.Context(), called("a"))
	second := g.waits(t.Context(), called("taken"))
	third := g.waits(t.Context(), called("z"))
	g.free()
	g.all(first, third)
	if o := <-second; !postgres.Violates(o.err, "rows_name_unique") || !postgres.RolledBack(o.err) {
		t.Fatalf("its own error is %v", o.err)
	}
	if n := read[int](t, g.DB, "SELECT count(*) FROM rows"); n != 3 {
		t.Fatalf("%d rows, want 3", n)
	}
	tried := strings.Split(g.transactions(), "|")
	slices.Sort(tried)
	if want := []string{"a", "a taken z", "taken", "z"}; !slices.Equal(tried, want) {
		t.Fatalf("tried %q: want each once in the group and once alone", tried)
	}
}

// What came of the group is not known to anybody, so nobody may send again without looking.
func TestGroupWhoseAcknowledgementIsLostIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	g := oneSlot(t)
	step := postgres.NewGroup(g.DB, keyOf, func(context.Context, []row) ([]string, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.sent = append(g.sent, []string{"lost"})
		return nil, &postgres.AmbiguousError{Err: errors.New("connection reset")}
	})
	waiting := []<-chan outcome{g.waitsFor(t.Context(), step, called("a")), g.waitsFor(t.Context(), step, called("b"))}
	g.free()
	for _, done := range waiting {
		if o := <-done; postgres.RolledBack(o.err) || !postgres.Unavailable(o.err) {
			t.Errorf("a member is told %v", o.err)
		}
	}
	if g.transactions() != "lost" {
		t.Fatalf("tried %s", g.transactions())
	}
}

func TestResultsThatAreNotOneForEachMemberAreNobodys(t *testing.T) {
	t.Parallel()
	g := oneSlot(t)
	step := postgres.NewGroup(g.DB, keyOf, func(context.Context, []row) ([]string, error) {
		return []string{"one"},
			nil
	})
	waiting := []<-chan outcome{g.waitsFor(t.Context(), step, called("a")), g.waitsFor(t.Context(), step, called("b"))}
	g.free()
	for _, done := range waiting {
		if o := <-done; o.err == nil || o.out != "" || postgres.RolledBack(o.err) {
			t.Errorf("a member is told %q, %v", o.out, o.err)
		}
	}
}

func TestMemberGivesUpWhenNoSlotBecomesFree(t *testing.T) {
	t.Parallel()
	// the first transaction needs its connection within it
	g := oneSlot(t, func(l *postgres.Limits) { l.Acquire = time.Second })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"no slot in time": t.Context(), "its caller has gone": gone} {
		if _, err := g.step.Do(ctx, called("a")); !postgres.Unavailable(err) || !postgres.RolledBack(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := g.waiting(); n != 0 || g.transactions() != "" {
		t.Errorf("%d wait still; sent %s", n, g.transactions())
	}
	g.free()
	g.await(func() bool { return g.busy() == 0 })
}

// A group belongs to all of its members. It does not end with one of their callers, and that caller cannot know what
// becomes of it.
func TestGroupOutlivesTheCallerOfAMember(t *testing.T) {
	t.Parallel()
	g := oneSlot(t)
	inside := g.lock(2)
	ctx, cancel := context.WithCancel(t.Context())
	hurried := g.waits(ctx, row{"a", "wait"})
	other := g.waits(t.Context(), called("b"))
	g.free()
	g.await(func() bool { return g.waiting() == 0 })
	cancel()
	if o := <-hurried; !errors.Is(o.err, context.Canceled) || postgres.RolledBack(o.err) {
		t.Fatalf("who did not wait for the end is told %v", o.err)
	}
	if err := inside.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.all(other)
	if n := read[int](t, g.DB, "SELECT count(*) FROM rows"); n != 2 || g.committed() != 1 {
		t.Fatalf("%d rows of %d transactions", n, g.committed())
	}
}

// A bug in one member must not leave the others waiting for ever, nor the slot taken.
func TestPanicInAGroupIsOneCallersAndFreesTheOthers(t *testing.T) {
	t.Parallel()
	g := oneSlot(t)
	panics := make(chan any, 3)
	told := make(chan error, 3)
	for i := range 3 {
		go func() {
			defer func() { panics <- recover() }()
			_, err := g.step.Do(t.Context(), row{fmt.Sprint(i), "panic"})
			told <- err
		}()
	}
	g.await(func() bool { return g.waiting() == 3 })
	g.free()
	var raised int
	for range 3 {
		if p := <-panics; p != nil {
			raised++
		}
	}
	if raised != 1 {
		t.Fatalf("the panic was raised %d times", raised)
	}
	for range 2 {
		if err := <-told; err == nil || postgres.RolledBack(err) {
			t.Fatalf("another member is told %v: nobody knows", err)
		}
	}
	g.await(func() bool { return g.busy() == 0 })
	if _, err := g.step.Do(t.Context(), called("c")); err != nil {
		t.Fatal(err)
	}
}
