package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Sharing is how SendShared bundles. The zero value bundles nothing.
type Sharing struct {
	// Lanes is how many transactions are under way at once. Up to here everybody has one to himself; beyond, those who wait share the
	// next.
	Lanes int
	// Parties is the most that one transaction carries.
	Parties int
	// Overtime is how long a transaction keeps its lane. One that takes longer waits for a lock that somebody else holds, and goes on without: a few
	// keys that are held up must not hold up all others. Zero is for ever.
	Overtime time.Duration
	// LockTimeout is how long one that has several parties waits for a lock at all. Then each of them sends alone, and only the one that it is about
	// waits for longer. Zero is the session's own.
	LockTimeout time.Duration
}

// DefaultSharing was found by the bench (docs/performance.md), on two cores: with one lane the server waits for us between two bundles, with
// more than it has cores the bundles are too small to help.
func DefaultSharing() Sharing {
	return Sharing{Lanes: 2, Parties: 32, Overtime: 100 * time.Millisecond, LockTimeout: 200 * time.Millisecond}
}

// lanes lets those who come together share one commit. A commit costs the server more than the two statements that it is for, and it costs
// the same for ten requests as for one.
//
// Nobody waits for company: whoever finds a free lane sends at once. Those who find none wait, and when a lane becomes free the first of
// them takes all the others along. So there is no timer, and an idle system adds nothing.
type lanes struct {
	Sharing

	mu      sync.Mutex
	busy    int
	waiting []*party
}

// party is one caller that waits for a lane.
type party struct {
	order string
	queue func(*pgx.Batch)
	word  chan word // one, for the life of the party
}

// word is what a waiting party is told.
type word struct {
	lead  bool  // the lane is yours: send, and take the others along
	alone bool  // the shared transaction has not happened, maybe because of somebody else: send your own
	err   error // otherwise, what came of it
}

// SendShared is Send for a transaction that may be bundled with those of other callers into one. It has happened, or not, for itself all
// the same: when a bundle fails, each of its parties sends alone.
//
// Who tries again after an AmbiguousError should do so by Send: it is not known whose statements took the bundle's time.
//
// queue puts the statements on a batch. It is called again for another try, so it must reset what the callbacks write. The statements
// may lock rows that belong to order, such as a key and what hangs on it, and no others: bundles lock in this order, so that they never wait for
// each other in a circle.
func (db *DB) SendShared(ctx context.Context, order string, queue func(*pgx.Batch)) error {
	p := &party{order: order, queue: queue, word: make(chan word, 1)}
	if db.lanes.Lanes < 1 || db.hurried(ctx) {
		return db.sendAlone(ctx, p)
	}
	if db.lanes.enter(p) {
		defer db.lanes.drive()()
		return db.sendAlone(ctx, p)
	}
	w, err := db.awaitWord(ctx, p)
	if err != nil {
		return err
	}
	if w.lead {
		w = db.lead(ctx, p)
	}
	if w.alone {
		return db.sendAlone(ctx, p)
	}
	return w.err
}

// hurried reports whether the caller's time may be over before a bundle's. Its callbacks write to what the caller holds, so it would have to wait.
func (db *DB) hurried(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return has && time.Until(deadline) < db.acquire+db.answer //nolint:forbidigo // a deadline is by the clock that ends it
}

func (db *DB) sendAlone(ctx context.Context, p *party) error {
	b := &pgx.Batch{}
	p.queue(b)
	return db.Send(ctx, b)
}

// awaitWord waits for a lane as long as for a connection. Once the party has been taken along it waits for the end: callbacks may be
// writing to what the caller holds.
func (db *DB) awaitWord(ctx context.Context, p *party) (word, error) {
	var patience <-chan time.Time
	if db.acquire > 0 {
		t := time.NewTimer(db.acquire)
		defer t.Stop()
		patience = t.C
	}
	cause := errors.New("no lane became free")
	select {
	case w := <-p.word:
		return w, nil
	case <-patience:
	case <-ctx.Done():
		cause = ctx.Err()
	}
	if db.lanes.withdraw(p) {
		return word{}, &UnavailableError{Op: "wait for a transaction", Err: cause}
	}
	return <-p.word, nil
}

// lead sends one transaction for p and for those who wait, and tells them what came of it, whatever happens.
func (db *DB) lead(ctx context.Context, p *party) (w word) {
	defer db.lanes.drive()()
	parties := db.lanes.board(p)
	w.err = &AmbiguousError{Err: errors.New("the transaction was abandoned")}
	defer func() {
		for _, each := range parties {
			if each != p {
				each.word <- w
			}
		}
	}()
	b := &pgx.Batch{}
	if limit := db.lanes.LockTimeout; len(parties) > 1 && limit > 0 {
		b.Queue("SELECT set_config('lock_timeout', $1, true)", milliseconds(limit))
	}
	for _, each := range parties {
		each.queue(b)
	}
	// The bundle must not end with the context of one of its parties. Send has a limit of its own.
	err := db.Send(context.WithoutCancel(ctx), b)
	w = word{err: err, alone: len(parties) > 1 && mayBeAnothers(err)}
	return w
}

// mayBeAnothers reports whether the statements of a bundle were rolled back by the database: one party is to blame, or has met the lock of
// somebody outside, and the others are not to suffer for it. When there was no connection, there will not be one for each of them; and
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

// Lanes tells how many transactions of SendShared are under way, and how many callers wait to be taken along.
func (db *DB) Lanes() (busy, waiting int) {
	db.slots.mu.Lock()
	defer db.slots.mu.Unlock()
	db.lanes.mu.Lock()
	defer db.lanes.mu.Unlock()
	return db.slots.taken + db.lanes.busy, db.slots.waiting + len(db.lanes.waiting)
}

// enter takes a free lane, or queues p for one.
func (l *lanes) enter(p *party) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy < l.Lanes {
		l.busy++
		return true
	}
	l.waiting = append(l.waiting, p)
	return false
}

// drive begins the time for which a lane may be kept. It is given back by the function returned, or in overtime.
func (l *lanes) drive() func() {
	if l.Overtime <= 0 {
		return l.leave
	}
	leave := sync.OnceFunc(l.leave)
	overtime := time.AfterFunc(l.Overtime, leave)
	return func() {
		overtime.Stop()
		leave()
	}
}

// leave passes the lane on to the first who waits.
func (l *lanes) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy--
		return
	}
	next := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	next.word <- word{lead: true}
}

// board takes along those who wait by now, in the order in which their rows are to be locked.
func (l *lanes) board(leader *party) []*party {
	l.mu.Lock()
	n := max(min(len(l.waiting), l.Parties-1), 0)
	parties := append([]*party{leader}, l.waiting[:n]...)
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.mu.Unlock()
	slices.SortStableFunc(parties, func(a, b *party) int { return cmp.Compare(a.order, b.order) })
	return parties
}

// withdraw takes p out of the queue, unless somebody has taken it along already.
func (l *lanes) withdraw(p *party) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, p)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}
