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

// Group lets payments that arrive together share one transaction: a group commit. A commit costs the server more than
// the statements before it, and a commit for ten payments costs as much as for one.
//
// There is no timer, so an idle system adds no wait. A caller that finds a free slot sends at once, alone, and so does
// one that must not share (Alone). The others wait. When a slot becomes free, the waiting callers are the members of
// the next group. A Group is for one step, such as the reservation. All Groups of a DB share its slots.
//
// For each member, the transaction has happened or not, as if the member had sent its own. If the database rolls a
// group back, and one member may be the cause, each member is tried alone.
type Group[In, Out any] struct {
	db    *DB
	key   func(In) string
	alone func(In) bool // or nil
	send  func(ctx context.Context, members []In) ([]Out, error)

	waiting []*member[In, Out]
	queued  bool // whether the Group is in slots.next
}

// member is one caller that waits for a slot.
type member[In, Out any] struct {
	key    string
	in     In
	done   chan result[Out] // gets one result
	passed int              // groups that were taken without it
}

// result is what a member gets.
type result[Out any] struct {
	out Out
	err error
	// alone: the group was rolled back, perhaps because of another member. The member is tried again alone.
	alone bool
	// panicked is the text of a panic of send. Only the first member gets it.
	panicked string
}

// NewGroup returns the Group of one step.
//
// key names the row that a member locks, such as its idempotency key. send gets the members in the order of their keys,
// and never two with the same key. It sends one transaction, by GroupPipeline. The transaction of several members locks
// the rows in that order, and no other rows, so two groups never wait for each other. send returns one Out for each
// member, in the same order.
//
// If the tables lie on many servers, only members whose keys begin with the same word, the tenant, share a group.
func NewGroup[In, Out any](
	db *DB, key func(In) string, send func(ctx context.Context, members []In) ([]Out, error),
) *Group[In, Out] {
	return &Group[In, Out]{db: db, key: key, send: send}
}

// Alone sets who never shares a transaction. Such a caller needs no slot.
func (g *Group[In, Out]) Alone(alone func(In) bool) *Group[In, Out] {
	g.alone = alone
	return g
}

// GroupPipeline is Pipeline for a group of n members. If n is more than one, no statement waits long for a lock.
func (db *DB) GroupPipeline(ctx context.Context, n int, calls ...Call) error {
	if limit := db.slots.LockTimeout; n > 1 && limit > 0 {
		calls = slices.Concat([]Call{setting("lock_timeout", milliseconds(limit))}, calls)
	}
	return db.Pipeline(ctx, calls...)
}

// Do runs the step for one member. If it has to wait for a slot, it runs in a group with others. Its errors are those
// of Pipeline. If the caller's time ends before the group's, the caller gets an AmbiguousError.
//
// After an AmbiguousError, the next try should be alone, because another member may have caused the delay.
func (g *Group[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	if g.alone != nil && g.alone(in) {
		return g.sendOne(ctx, in)
	}
	m, wait := g.enter(in)
	if !wait {
		if g.db.slots.AtOnce > 0 {
			defer g.db.slots.hold()()
		}
		return g.sendOne(ctx, in)
	}
	r := g.await(ctx, m)
	switch {
	case r.panicked != "":
		panic(r.panicked)
	case r.alone:
		return g.sendOne(ctx, in)
	}
	return r.out, r.err
}

// sendOne runs the step in a transaction of its own.
func (g *Group[In, Out]) sendOne(ctx context.Context, in In) (Out, error) {
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

// These errors are bugs of ours. The transaction may have committed.
var (
	errResults   = &AmbiguousError{Err: errors.New("a group has not as many results as members")}
	errAbandoned = &AmbiguousError{Err: errors.New("the transaction was abandoned")}
)

// enter takes a free slot, or puts the caller among those that wait.
func (g *Group[In, Out]) enter(in In) (m *member[In, Out], wait bool) {
	s := &g.db.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.AtOnce < 1 || s.take() {
		return nil, false
	}
	m = &member[In, Out]{key: g.key(in), in: in, done: make(chan result[Out], 1)}
	g.waiting = append(g.waiting, m)
	s.waiting++
	g.queue()
	return m, true
}

// queue puts the Group into the queue for slots. The caller holds the mutex.
func (g *Group[In, Out]) queue() {
	if !g.queued {
		g.queued = true
		g.db.slots.next = append(g.db.slots.next, g.begin)
	}
}

// await waits for a slot, as long as for a connection, and then for the result of the group.
func (g *Group[In, Out]) await(ctx context.Context, m *member[In, Out]) result[Out] {
	var limit <-chan time.Time
	if g.db.acquire > 0 {
		t := time.NewTimer(g.db.acquire)
		defer t.Stop()
		limit = t.C
	}
	cause := errors.New("none became free")
	select {
	case r := <-m.done:
		return r
	case <-limit:
	case <-ctx.Done():
		cause = ctx.Err()
	}
	if g.withdraw(m) {
		return result[Out]{err: &UnavailableError{Op: "wait for a transaction", Err: cause}}
	}
	select {
	case r := <-m.done:
		return r
	case <-ctx.Done():
		return result[Out]{err: &AmbiguousError{Err: ctx.Err()}}
	}
}

// withdraw removes a member from those that wait. It returns false if the member is in a running group already.
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

// begin sends the waiting members as one transaction, in a slot that has become free. The caller holds the mutex.
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

// take removes the members of the next group from those that wait, and sorts them by key. On one server, the member
// that has waited longest is among them. Two members with the same key are never in one group, because a statement over
// many rows must not write a row twice. The caller holds the mutex.
func (g *Group[In, Out]) take() []*member[In, Out] {
	var members, left []*member[In, Out]
	waiting, keys, passed := []string{}, map[string]bool{}, 0
	for _, m := range g.waiting {
		waiting, passed = append(waiting, m.key), max(passed, m.passed)
	}
	together := g.db.servers.together(waiting, passed)
	for _, m := range g.waiting {
		if len(members) >= max(g.db.slots.Members, 1) || keys[m.key] || !together(m.key) {
			m.passed++
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

// run sends one transaction for the members, and gives each member a result in every case. The transaction belongs to
// no single member, so it does not end with the context of one. Pipeline has a time limit of its own.
func (g *Group[In, Out]) run(members []*member[In, Out]) {
	defer g.db.slots.hold()()
	ins := make([]In, len(members))
	for i, m := range members {
		ins[i] = m.in
	}
	var outs []Out
	r := result[Out]{err: errAbandoned}
	defer func() {
		if p := recover(); p != nil {
			r.panicked = fmt.Sprintf("group commit: %v\n%s", p, debug.Stack())
		}
		for i, m := range members {
			if r.err == nil {
				r.out = outs[i]
			}
			m.done <- r
			r.panicked = ""
		}
	}()
	var err error
	outs, err = g.send(context.Background(), ins)
	if err == nil && len(outs) != len(ins) {
		err = errResults
	}
	r = result[Out]{err: err, alone: len(members) > 1 && mayBeAnothers(err)}
}

// mayBeAnothers reports whether one member may have caused the database to roll back the group. For example, it has
// violated a constraint, or has waited too long for a lock. Then the other members can succeed alone. It is false if
// the cause concerns all members: no connection, or a server that stops, only reads, or has no space.
func mayBeAnothers(err error) bool {
	unavailable, _ := errors.AsType[*UnavailableError](err)
	if !RolledBack(err) || unavailable != nil && unavailable.Op != opRun {
		return false
	}
	pg, answered := errors.AsType[*pgconn.PgError](err)
	return !answered || pg.Code != onlyReads && !strings.HasPrefix(pg.Code, "53") && !strings.HasPrefix(pg.Code, "57P")
}
