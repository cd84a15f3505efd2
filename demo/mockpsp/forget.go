package mockpsp

import "net/http"

// keyFilter selects keys. An empty member stands for all its values.
type keyFilter struct {
	Account string `json:"account"`
	Key     string `json:"idempotencyKey"`
}

// deleteKeys forgets the keys of an account and Idempotency-Key, where empty means all: the next request with such a
// key is executed as a new one. The ledger stays. Keys that are being executed are forgotten when the call has ended,
// if they had an entry by now; late charges keep theirs until they land.
func (s *Server) deleteKeys(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		s.refuse(apiError{http.StatusServiceUnavailable, "shutting_down", "the PSP is shutting down"}).deliver(w)
		return
	}
	defer s.active.Done()
	query := r.URL.Query()
	note := &record{Forgets: &keyFilter{query.Get("account"), query.Get("idempotencyKey")}}
	if err := s.ledger.write(note); err != nil {
		s.refuse(err).deliver(w)
		return
	}
	forgotten := note.forgotten
	if s.forgetDialect != nil {
		more, err := s.forgetDialect(query.Get("account"), query.Get("idempotencyKey"))
		if err != nil {
			s.refuse(err).deliver(w)
			return
		}
		forgotten += more
	}
	jsonReply(http.StatusOK, map[string]int{"forgotten": forgotten}).deliver(w)
}

// forget drops the keys that a note selects. The caller holds l.mu, or is the replay.
func (l *ledger) forget(note *record) {
	for ref, state := range l.keys {
		account, key := note.Forgets.Account, note.Forgets.Key
		if account != "" && account != ref.account || key != "" && key != ref.key {
			continue
		}
		state.hasFailed = false
		if state.hasEnded() {
			l.drop(ref, state)
			note.forgotten++
		}
	}
}

// drop forgets a key, at once or with the end of the call that executes it.
func (l *ledger) drop(ref keyRef, state *keyState) {
	if state.inFlight {
		state.forgotten = true
		return
	}
	delete(l.keys, ref)
}
