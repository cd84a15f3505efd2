package stripe

import (
	"sync"
	"time"
)

// store holds the newest version of each object, as it is in the ledger's file.
type store struct {
	mu       sync.RWMutex
	books    map[string]*book // by account
	marks    map[string]bool  // the faults that strike once and have struck
	promises map[string]*refund
	newest   map[string]snapshot // of all books, by id
}

// book holds the objects of an account.
type book struct {
	intents      series[*intent]
	charges      series[*charge]
	refunds      series[*refund]
	disputes     series[*dispute]
	transactions series[*transaction]
	events       series[*event]
}

// series holds objects of one kind, oldest first.
type series[T any] struct {
	all  []*slot[T]
	byID map[string]*slot[T]
}

// slot is an object in all its versions. The newest is read and changed under the lock of the store.
type slot[T any] struct {
	newest   T
	position int
	since    time.Time // when the first version was published
	late     bool      // lists have it only some time after that

	changing sync.Mutex // held by the one request that changes the object, also while it waits for the disk
}

func newStore() *store {
	return &store{books: map[string]*book{}, marks: map[string]bool{}, promises: map[string]*refund{},
		newest: map[string]snapshot{}}
}

// change is what one line of the ledger's file holds of this dialect.
type change struct {
	Intent  *intent    `json:"intent,omitempty"`
	Charge  *charge    `json:"charge,omitempty"`
	Refund  *refund    `json:"refund,omitempty"`
	Dispute *dispute   `json:"dispute,omitempty"`
	Payout  *payout    `json:"payout,omitempty"`
	Events  []*event   `json:"events,omitempty"`
	Answer  *answer    `json:"answer,omitempty"`  // saved under its key
	Mark    string     `json:"mark,omitempty"`    // this fault has struck
	Forgets *keyFilter `json:"forgets,omitempty"` // these keys are forgotten
	Promise *refund    `json:"promise,omitempty"` // this refund will land
	Broken  string     `json:"broken,omitempty"`  // the promise that could not be kept, by its id
	Late    bool       `json:"late,omitempty"`    // lists have what it makes only some time later
}

// publish shows a change that is durable, and returns the version of the intent that the change has replaced.
func (s *store) publish(ch *change, at time.Time) (replaced *intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := ch.Intent; i != nil {
		intents := &s.book(i.Account).intents
		replaced = intents.newest(i.ID)
		intents.put(i.ID, i, at, ch.Late)
		s.newest[i.ID] = i
	}
	var b *book // of the transactions
	if c := ch.Charge; c != nil {
		b = s.book(c.Account)
		b.charges.put(c.ID, c, at, ch.Late)
		s.newest[c.ID] = c
	}
	if r := ch.Refund; r != nil {
		b = s.book(r.Account)
		b.refunds.put(r.ID, r, at, ch.Late)
		s.newest[r.ID] = r
		delete(s.promises, r.ID)
	}
	if d := ch.Dispute; d != nil {
		b = s.book(d.Account)
		b.disputes.put(d.ID, d, at, ch.Late)
		s.newest[d.ID] = d
	}
	if p := ch.Payout; p != nil {
		b = s.book(p.Account)
		for _, id := range p.Paid {
			if t := b.transactions.newest(id); t != nil {
				t.payout = p.ID
			}
		}
		s.newest[p.ID] = p
	}
	for _, t := range ch.transactions() {
		if s.newest[t.id] == nil { // an earlier version of its source may have brought it
			b.transactions.put(t.id, t, at, ch.Late)
			s.newest[t.id] = t
		}
	}
	for _, e := range ch.Events {
		e.take(ch)
		s.book(e.Account).events.put(e.ID, e, at, ch.Late)
	}
	if ch.Mark != "" {
		s.marks[ch.Mark] = true
	}
	if ch.Promise != nil {
		s.promises[ch.Promise.ID] = ch.Promise
	}
	delete(s.promises, ch.Broken)
	return replaced
}

// book returns the account's book. The caller holds s.mu for writing.
func (s *store) book(account string) *book {
	if s.books[account] == nil {
		s.books[account] = &book{}
	}
	return s.books[account]
}

func (s *series[T]) put(id string, version T, at time.Time, late bool) {
	if known := s.byID[id]; known != nil {
		known.newest = version
		return
	}
	if s.byID == nil {
		s.byID = map[string]*slot[T]{}
	}
	added := &slot[T]{newest: version, position: len(s.all), since: at, late: late}
	s.all = append(s.all, added)
	s.byID[id] = added
}

// newest returns the newest version of an object, or nil. The caller holds the lock of the store.
func (s *series[T]) newest(id string) (version T) {
	if known := s.byID[id]; known != nil {
		version = known.newest
	}
	return version
}

// read gives access to an account's book for as long as the function runs.
func (s *store) read(account string, look func(*book)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b := s.books[account]
	if b == nil {
		b = &book{}
	}
	look(b)
}

func (s *store) hasMark(mark string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.marks[mark]
}

// intentSlot returns the slot of an intent, or nil.
func (s *store) intentSlot(account, id string) (found *slot[*intent]) {
	s.read(account, func(b *book) { found = b.intents.byID[id] })
	return found
}

// newestIntent returns the newest version.
func (s *store) newestIntent(of *slot[*intent]) *intent {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return of.newest
}

// chargeOf returns the newest version of a charge, or nil.
func (s *store) chargeOf(account, id string) (found *charge) {
	s.read(account, func(b *book) { found = b.charges.newest(id) })
	return found
}

// refundOf returns the newest version of a refund, or nil.
func (s *store) refundOf(account, id string) (found *refund) {
	s.read(account, func(b *book) { found = b.refunds.newest(id) })
	return found
}

// disputeOf returns the newest version of a dispute, or nil.
func (s *store) disputeOf(account, id string) (found *dispute) {
	s.read(account, func(b *book) { found = b.disputes.newest(id) })
	return found
}
