// Package watch wakes requests (package payments) and pages (package console) that wait for a change of a key. It knows
// no payments, no pages and no SQL: its callers bring the function that reads the keys, and say what ends a wait. A
// change may wake a caller once too often, and is never missed.
package watch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"payonce/internal/idempotency"
)

const (
	// Interval is how often a process reads the keys that are waited for.
	Interval = 200 * time.Millisecond
	// longestLook bounds one of these reads.
	longestLook = 5 * time.Second
	// keysInALook bounds the keys in one statement.
	keysInALook = 250
)

// Keys are the keys that are watched. A change that this process makes wakes those who wait at once. A read finds the
// others: while somebody waits, one goroutine reads all waited keys together. So the cost in the database does not grow
// with the number of those who wait, and an idle process reads nothing. LISTEN would take a connection of its own, and
// NOTIFY would make all commits wait for one lock.
//
// S is what a read says about a key. It is safe for concurrent use.
type Keys[S any] struct {
	read func(context.Context, []idempotency.Ref) (map[idempotency.Ref]S, error)

	watched atomic.Int32 // how many keys there are, to be read without the lock

	mu      sync.Mutex
	keys    map[idempotency.Ref]*key[S]
	looking bool // whether the goroutine runs
}

// key is a key that somebody has joined. It is replaced when it has changed.
type key[S any] struct {
	changed chan struct{}
	joined  int // those whom a change in this process wakes
	// Those of them who wait, and what ends their waits. The goroutine reads a key only for these.
	waiting map[*Member[S]]func(state S, found bool) (over bool)
}

// New returns Keys that are read by this function. A key that it does not return is not found.
func New[S any](read func(context.Context, []idempotency.Ref) (map[idempotency.Ref]S, error)) *Keys[S] {
	return &Keys[S]{read: read, keys: map[idempotency.Ref]*key[S]{}}
}

// Member is one who has joined a key.
type Member[S any] struct {
	watch *Keys[S]
	ref   idempotency.Ref
	key   *key[S]
}

// Join makes the caller one whom a change of the key wakes. The caller calls Leave once.
func (w *Keys[S]) Join(ref idempotency.Ref) *Member[S] {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keys[ref]
	if k == nil {
		k = &key[S]{changed: make(chan struct{}), waiting: map[*Member[S]]func(S, bool) bool{}}
		w.keys[ref] = k
		w.watched.Add(1)
	}
	k.joined++
	return &Member[S]{watch: w, ref: ref, key: k}
}

// Wait has the goroutine read the key from now on. over says of what was read whether the wait is over.
func (m *Member[S]) Wait(over func(state S, found bool) bool) {
	w := m.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	m.key.waiting[m] = over
	if !w.looking {
		w.looking = true
		go w.look()
	}
}

// Changed is closed when the key has changed.
func (m *Member[S]) Changed() <-chan struct{} { return m.key.changed }

// Leave undoes Join.
func (m *Member[S]) Leave() {
	w := m.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(m.key.waiting, m)
	if m.key.joined--; m.key.joined == 0 && w.keys[m.ref] == m.key {
		w.drop(m.ref)
	}
}

// Len is how many keys somebody has joined.
func (w *Keys[S]) Len() int { return int(w.watched.Load()) }

// Wake wakes all who have joined a key. Every request with a key calls it, for the console, so it does nothing while
// nobody has joined.
func (w *Keys[S]) Wake(ref idempotency.Ref) {
	if w.watched.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked(ref)
}

func (w *Keys[S]) wakeLocked(ref idempotency.Ref) {
	if k := w.keys[ref]; k != nil {
		w.drop(ref)
		close(k.changed)
	}
}

func (w *Keys[S]) drop(ref idempotency.Ref) {
	delete(w.keys, ref)
	w.watched.Add(-1)
}

// look reads the waited keys until nobody waits. It belongs to no request, so its context is its own. A failed read
// changes nothing: the next one may succeed.
func (w *Keys[S]) look() {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for range tick.C {
		refs, waited := w.waitedFor()
		if len(refs) == 0 {
			return
		}
		for part := range slices.Chunk(refs, keysInALook) {
			ctx, cancel := context.WithTimeout(context.Background(), longestLook)
			if seen, err := w.read(ctx, part); err == nil {
				w.wakeChanged(part, waited, seen)
			}
			cancel()
		}
	}
}

// waitedFor lists the keys that somebody waits for. If there are none, the goroutine is over: the next one who waits
// starts another one.
func (w *Keys[S]) waitedFor() (refs []idempotency.Ref, waited map[idempotency.Ref]*key[S]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited = map[idempotency.Ref]*key[S]{}
	for ref, k := range w.keys {
		if len(k.waiting) > 0 {
			refs, waited[ref] = append(refs, ref), k
		}
	}
	w.looking = len(refs) > 0
	return refs, waited
}

// wakeChanged wakes those whose wait is over. A key that has changed since the read began, and is waited for again, is
// left alone: what was read is older.
func (w *Keys[S]) wakeChanged(
	refs []idempotency.Ref, waited map[idempotency.Ref]*key[S], seen map[idempotency.Ref]S,
) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ref := range refs {
		k := waited[ref]
		if w.keys[ref] != k {
			continue
		}
		state, found := seen[ref]
		for _, over := range k.waiting {
			if over(state, found) {
				w.wakeLocked(ref)
				break
			}
		}
	}
}
