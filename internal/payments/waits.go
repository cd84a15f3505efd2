package payments

import (
	"context"
	"slices"
	"sync"
	"time"

	"payonce/internal/idempotency"
)

const (
	// lookInterval is how often a process reads the keys that its requests wait for.
	lookInterval = 200 * time.Millisecond
	// lookLimit bounds one of these reads.
	lookLimit = 5 * time.Second
	// keysInALook bounds the keys in one statement.
	keysInALook = 250
	// MaxWaiting is how many requests of a process may wait at the same time. Each costs up to 20 KB, and
	// its connection. The requests of one tenant take at most as many places as they leave free: half of them, if no
	// other tenant's requests wait. So one tenant never keeps another one's requests from waiting.
	MaxWaiting = 2000
)

// waits are the keys that requests of this process wait for. While there are any, one goroutine reads all of them
// together. So the cost in the database does not grow with the number of waiting requests, and an idle process reads
// nothing. LISTEN would take a connection of its own, and NOTIFY would make all commits wait for one lock.
type waits struct {
	undecided func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error)
	over      chan struct{} // closed when no request may wait any more

	mu      sync.Mutex
	keys    map[idempotency.Ref]*waitedKey
	waiting int            // requests that wait, for all keys together
	tenants map[string]int // of them, those of each tenant
	looking bool           // whether the goroutine runs
}

// waitedKey is a key that requests have joined. It is replaced when it has changed.
type waitedKey struct {
	changed chan struct{}
	joined  int // requests that a commit of this process wakes
	// Those of them that wait. The goroutine reads a key only for these.
	forEnd, forOutcome int
}

func newWaits(undecided func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error)) *waits {
	return &waits{undecided: undecided, over: make(chan struct{}), keys: map[idempotency.Ref]*waitedKey{},
		tenants: map[string]int{}}
}

// member is one request that has joined a key.
type member struct {
	waits *waits
	ref   idempotency.Ref
	key   *waitedKey
	what  until // what it waits for; nothing before it waits
}

// join makes the request one that a change of the key wakes. The caller calls leave once.
func (w *waits) join(ref idempotency.Ref) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keys[ref]
	if k == nil {
		k = &waitedKey{changed: make(chan struct{})}
		w.keys[ref] = k
	}
	k.joined++
	return &member{waits: w, ref: ref, key: k}
}

// wait has the goroutine read the key from now on. It refuses if too many requests wait, of all tenants or of this one.
func (m *member) wait(what until) (ok bool) {
	w := m.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tenants[m.ref.Tenant] >= MaxWaiting-w.waiting {
		return false
	}
	m.what = what
	w.waiting++
	w.tenants[m.ref.Tenant]++
	*m.key.counter(what)++
	if !w.looking {
		w.looking = true
		go w.look()
	}
	return true
}

func (m *member) leave() {
	w := m.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.what != nothing {
		w.waiting--
		if w.tenants[m.ref.Tenant]--; w.tenants[m.ref.Tenant] == 0 {
			delete(w.tenants, m.ref.Tenant)
		}
		*m.key.counter(m.what)--
	}
	if m.key.joined--; m.key.joined == 0 && w.keys[m.ref] == m.key {
		delete(w.keys, m.ref)
	}
}

func (k *waitedKey) counter(what until) *int {
	if what == executionEnd {
		return &k.forEnd
	}
	return &k.forOutcome
}

// wake wakes all who have joined a key.
func (w *waits) wake(ref idempotency.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked(ref)
}

func (w *waits) wakeLocked(ref idempotency.Ref) {
	if k := w.keys[ref]; k != nil {
		delete(w.keys, ref)
		close(k.changed)
	}
}

// end ends all waits, those that begin later as well. It is called once.
func (w *waits) end() { close(w.over) }

// look reads the waited keys until nobody waits. It belongs to no request, so its context is its own. A failed read
// changes nothing: the next one may succeed.
func (w *waits) look() {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for range tick.C {
		refs, waited := w.waitedFor()
		if len(refs) == 0 {
			return
		}
		for part := range slices.Chunk(refs, keysInALook) {
			ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
			if inFlight, err := w.undecided(ctx, part); err == nil {
				w.wakeChanged(part, waited, inFlight)
			}
			cancel()
		}
	}
}

// waitedFor lists the keys that requests wait for. If there are none, the goroutine is over: the next request that
// waits starts another one.
func (w *waits) waitedFor() (refs []idempotency.Ref, waited map[idempotency.Ref]*waitedKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited = map[idempotency.Ref]*waitedKey{}
	for ref, k := range w.keys {
		if k.forEnd+k.forOutcome > 0 {
			refs, waited[ref] = append(refs, ref), k
		}
	}
	w.looking = len(refs) > 0
	return refs, waited
}

// wakeChanged wakes those whose wait is over. A key that has changed since the read began, and is waited for again, is
// left alone: what was read is older.
func (w *waits) wakeChanged(
	refs []idempotency.Ref, waited map[idempotency.Ref]*waitedKey, seen map[idempotency.Ref]bool,
) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ref := range refs {
		k := waited[ref]
		inFlight, undecided := seen[ref]
		if w.keys[ref] == k && (!undecided || !inFlight && k.forEnd > 0) {
			w.wakeLocked(ref)
		}
	}
}
