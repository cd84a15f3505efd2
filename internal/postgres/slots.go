package postgres

import (
	"sync"
	"time"
)

// GroupLimits bound group commits. The zero value means that every transaction has one member.
type GroupLimits struct {
	// AtOnce is how many transactions of Groups may run at the same time. While there is a free slot, a caller sends
	// its own transaction at once. If there is none, callers wait, and those of one step form its next group.
	AtOnce int
	// Members is the largest number of members of one group.
	Members int
	// Hold is how long a transaction may keep its slot. A transaction that takes longer probably waits for a lock. It
	// continues without a slot, so that a few locked keys do not stop all others. Zero is no limit.
	Hold time.Duration
	// LockTimeout is how long a transaction of several members waits for a lock. After that, each member is tried
	// alone, and only the member whose row is locked waits longer. Zero is the session's own limit.
	LockTimeout time.Duration
}

// slots bound how many transactions of all Groups of a DB run at the same time. The mutex also guards the lists of the
// Groups.
type slots struct {
	GroupLimits

	mu      sync.Mutex
	taken   int
	waiting int // callers, in all Groups
	// next are the Groups that have waiting callers, in turn. Each function begins a transaction in a slot that has
	// become free, or reports that its callers have given up.
	next []func() (began bool)
}

// take takes a free slot, if there is one. The caller holds the mutex.
func (s *slots) take() bool {
	if s.taken >= s.AtOnce {
		return false
	}
	s.taken++
	return true
}

// hold starts the time limit Hold of a slot that is taken. The slot is released by the returned function, or when the
// time is over.
func (s *slots) hold() (release func()) {
	if s.Hold <= 0 {
		return s.release
	}
	over := time.AfterFunc(s.Hold, s.release)
	return func() {
		if over.Stop() { // Otherwise the timer has released the slot, or is about to.
			s.release()
		}
	}
}

// release gives a slot to the Group whose turn it is, or makes the slot free.
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

// CommitSlots returns how many transactions of Groups hold a slot, and how many callers wait for one.
func (db *DB) CommitSlots() (busy, waiting int) {
	db.slots.mu.Lock()
	defer db.slots.mu.Unlock()
	return db.slots.taken, db.slots.waiting
}
