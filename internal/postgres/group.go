package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Group lets payments that arrive together share one transaction: a group commit. A commit costs the server more than the statements that it is for, and
// as much for one payment as for ten.
//
// There is no timer, and nothing is added when the system is idle. A caller that finds a free slot sends at once, alone. Callers that find none wait, and
// when a slot becomes free, those who wait are the members of the next group. A Group is for one step, such as the reservation; all Groups of a DB
// share its slots.
//
// To its members the transaction has happened, or not, as if each had sent its own: when a group fails, each member is tried alone.
type Group[In, Out any] struct {
	db     *DB
	key    func(In) string
	tenant func(In) string // or nil
	send   func(ctx context.Context, members []In) ([]Out, error)

	waiting []*member[In, Out]
	queued  bool // in slots.next
}

// member is one caller that waits for a slot.
type member[In, Out any] struct {
	key  string
	in   In
	told chan result[Out] // one, for the life of the member
}

// result is what a member is told.
type result[Out any] struct {
	out Out
	err error
	// alone: the group was rolled back, maybe because of another member. Try again alone.
	alone bool
	// panicked is a panic of send, for the first member only.
	panicked string
}

// NewGroup returns the Group of one step.
//
// key names the row that a member locks, such as its idempotency key. send gets the members in the order of their keys, and never two of one key. It sends
// one transaction, by GroupPipeline, which locks the rows in that order and no others: so groups never wait for each other in a circle. It returns one Out
// for each member, in the same order.
func NewGroup[In, Out any](db *DB, key func(In) string, send func(ctx context.Context, members []In) ([]Out, error)) *Group[In, Out] {
	return &Group[In, Out]{db: db, key: key, send: send}
}

// ByTenant has each group be of one tenant where tables are distributed: there, a transaction of several tenants is one of several servers.
func (g *Group[In, Out]) ByTenant(tenant func(In) string) *Group[In, Out] {
	g.tenant = tenant
	return g
}

// together tells whether two members may be of one group.
func (g *Group[In, Out]) together(a, b In) bool {
	return g.tenant == nil || !g.db.spread.Load() || g.tenant(a) == g.tenant(b)
}

// GroupPipeline is Pipeline for a group of n members. With more than one, no statement waits long for a lock.
func (db *DB) GroupPipeline(ctx context.Context, n int, calls ...Call) error {
	if limit := db.slots.LockTimeout; n > 1 && limit > 0 {
		settings := []Call{setting("lock_timeout", milliseconds(limit))}
		if db.spread.Load() {
			// The rows are the workers'. What Citus hands on to them is SET LOCAL, which takes no parameters, and not set_config.
			settings = []Call{execute("SET LOCAL citus.propagate_set_commands = 'local'"), execute("SET LOCAL lock_timeout = '" + milliseconds(limit) + "'")}
		}
		calls = slices.Concat(settings, calls)
	}
	return db.Pipeline(ctx, calls...)
}

// Do runs the step for one member, in a group with others where it has to wait for a slot. Its errors are those of Pipeline. A caller whose time is over before
// its group's is told an AmbiguousError.
//
// Who tries again after an AmbiguousError should do so by Alone: it is not known which member took the group's time.
func (g *Group[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	m, wait := g.enter(in)
	if !wait {
		if g.db.slots.AtOnce > 0 {
			defer g.db.slots.hold()()
		}
		return g.Alone(ctx, in)
	}
	r := g.await(ctx, m)
	switch {
	case r.panicked != "":
		panic(r.panicked)
	case r.alone:
		return g.Alone(ctx, in)
	}
	return r.out, r.err
}

// Alone runs the step in a transaction of its own.
func (g *Group[In, Out]) Alone(ctx context.Context, in In) (Out, error) {
	var none Out
	out, err := g.send(ctx, []In{in})
	switch {
	case err != nil:
		return none, err
	case len(out) != 1:
		return none, errResults
	}
	return out[0], nil
}

// Mistakes of ours. The transaction may have committed.
var (
	errResults   = &AmbiguousError{Err: errors.New("a group has not as many results as members")}
	errAbandoned = &AmbiguousError{Err: errors.New("the transaction was abandoned")}
)

// enter takes a free slot, or has the caller wait for one.
func (g *Group[In, Out]) enter(in In) (m *member[In, Out], wait bool) {
	s := &g.db.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.AtOnce < 1 || s.take() {
		return nil, false
	}
	m = &member[In, Out]{key: g.key(in), in: in, told: make(chan result[Out], 1)}
	g.waiting = append(g.waiting, m)
	s.waiting++
	g.queue()
	return m, true
}

// queue has the Group take its turn at the slots. The mutex must be held.
func (g *Group[In, Out]) queue() {
	if !g.queued {
		g.queued = true
		g.db.slots.next = append(g.db.slots.next, g.begin)
	}
}

// await waits for a slot as long as for a connection, and then for what has come of the group.
func (g *Group[In, Out]) await(ctx context.Context, m *member[In, Out]) result[Out] {
	var patience <-chan time.Time
	if g.db.acquire > 0 {
		t := time.NewTimer(g.db.acquire)
		defer t.Stop()
		patience = t.C
	}
	cause := errors.New("none became free")
	select {
	case r := <-m.told:
		return r
	case <-patience:
	case <-ctx.Done():
		cause = ctx.Err()
	}
	if g.withdraw(m) {
		return result[Out]{err: &UnavailableError{Op: "wait for a transaction", Err: cause}}
	}
	select {
	case r := <-m.told:
		return r
	case <-ctx.Done():
		return result[Out]{err: &AmbiguousError{Err: ctx.Err()}}
	}
}

// withdraw takes a member out of those who wait, unless it is in a group already.
func (g *Group[In, Out]) withdraw(m *member[In, Out]) bool {
	s := &g.db.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(g.waiting, m)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	s.waiting--
	return true
}

// begin sends those who wait as one transaction, in a slot that has become free. The mutex must be held.
func (g *Group[In, Out]) begin() bool {
	g.queued = false
	members := g.take()
	if len(g.waiting) > 0 {
		g.queue()
	}
	if len(members) == 0 {
		return false
	}
	go g.run(members)
	return true
}

// take takes the members of the next group out of those who wait, and sorts them by key. Of two with one key the second waits for the group after: a
// statement over many rows must not meet one row twice. Who has waited longest is a member of the next group, whatever its tenant. The mutex must be held.
func (g *Group[In, Out]) take() []*member[In, Out] {
	var members, left []*member[In, Out]
	keys := map[string]bool{}
	for _, m := range g.waiting {
		if len(members) >= max(g.db.slots.Members, 1) || keys[m.key] || (len(members) > 0 && !g.together(members[0].in, m.in)) {
			left = append(left, m)
			continue
		}
		keys[m.key] = true
		members = append(members, m)
	}
	g.waiting = left
	g.db.slots.waiting -= len(members)
	slices.SortFunc(members, func(a, b *member[In, Out]) int { return cmp.Compare(a.key, b.key) })
	return members
}

// run sends one transaction for the members and tells each what came of it, whatever happens. The transaction belongs to none of the members, so it does
// not end with the context of one: Pipeline has a limit of its own.
func (g *Group[In, Out]) run(members []*member[In, Out]) {
	defer g.db.slots.hold()()
	ins := make([]In, len(members))
	for i, m := range members {
		ins[i] = m.in
	}
	var outs []Out
	told := result[Out]{err: errAbandoned}
	defer func() {
		if p := recover(); p != nil {
			told.panicked = fmt.Sprintf("group commit: %v\n%s", p, debug.Stack())
		}
		for i, m := range members {
			if told.err == nil {
				told.out = outs[i]
			}
			m.told <- told
			told.panicked = "" // once is enough
		}
	}()
	var err error
	outs, err = g.send(context.Background(), ins)
	if err == nil && len(outs) != len(ins) {
		err = errResults
	}
	told = result[Out]{err: err, alone: len(members) > 1 && mayBeAnothers(err)}
}

// mayBeAnothers reports whether the database has rolled a group back because of one member: that one has broken a rule, or has met the lock of somebody
// outside, and the others are not to suffer for it. When there was no connection, there will not be one for each of them; and
// when the server stops, only reads, or has no room, it is so for all.
func mayBeAnothers(err error) bool {
	var unavailable *UnavailableError
	var pg *pgconn.PgError
	switch {
	case err == nil || !RolledBack(err):
		return false
	case errors.As(err, &unavailable) && unavailable.Op != opRun:
		return false
	case errors.As(err, &pg):
		return pg.Code != "25006" && !strings.HasPrefix(pg.Code, "53") && !strings.HasPrefix(pg.Code, "57P")
	}
	return true
}
