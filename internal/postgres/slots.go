package postgres

import (
	"sync"
	"time"
)

// GroupLimits bound group commits. The zero value means that every transaction has one member.
type GroupLimits struct {
	// AtOnce is how many transactions of Groups are under way at once. Up to here a caller has one to itself and begins at once; beyond, callers wait, and
	// those of one step form its next group.
	AtOnce int
	// Members is the most that one transaction carries.
	Members int
	// Hold is how long a transaction keeps its slot. A transaction that takes longer waits for a lock that somebody else holds. It goes on without a slot: a
	// few keys that are held up must not hold up all others. Zero is for ever.
	Hold time.Duration
	// LockTimeout is how long a transaction of several members waits for a lock. Then each member is tried alone, and only the one whose row is locked
	// waits longer. Zero is the session's own limit.
	LockTimeout time.Duration
}

// DefaultGroupLimits was found by the bench (docs/performance.md), on two cores: with one slot the server waits for us between two groups, with more slots
// than it has cores the groups are too small to help.
func DefaultGroupLimits() GroupLimits {
	return GroupLimits{AtOnce: 2, Members: 32, Hold: 100 * time.Millisecond, LockTimeout: 200 * time.Millisecond}
}

// slots bound how many transactions of all Groups of a DB are under way at once. The mutex guards the Groups' own lists, too.
type slots struct {
	GroupLimits

	mu      sync.Mutex
	taken   int
	waiting int // callers, in all Groups
	// next are the Groups that have callers waiting, by turns. Each begins a transaction in a slot that has become free, or reports that its callers have
	// given up.
	next []func() (began bool)
}

// take takes a free slot, if there is one. The mutex must be held.
func (s *slots) take() bool {
	if s.taken >= s.AtOnce {
		return false
	}
	s.taken++
	return true
}

// hold begins the time for which a slot may be kept. It is given back by the function returned, or when that time is over.
func (s *slots) hold() (release func()) {
	if s.Hold <= 0 {
		return s.release
	}
	once := sync.OnceFunc(s.release)
	over := time.AfterFunc(s.Hold, once)
	return func() {
		over.Stop()
		once()
	}
}

// release passes a slot on to the Group whose turn it is.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.next) > 0 {
		begin := s.next[0]
		s.next = s.next[1:]
		if begin() {
			return
		}
	}
	s.taken--
}

// Lanes tells how many transactions of Groups are under way, and how many callers wait for one.
func (db *DB) Lanes() (busy, waiting int) {
	db.slots.mu.Lock()
	defer db.slots.mu.Unlock()
	return db.slots.taken, db.slots.waiting
}
