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
	forgotten, err := s.forgetKeys(keyFilter{r.FormValue("account"), r.FormValue("idempotencyKey")})
	if err != nil {
		s.refuse(err).Deliver(w)
		return
	}
	jsonReply(http.StatusOK, map[string]int{"forgotten": forgotten}).Deliver(w)
}

func (s *Server) forgetKeys(of keyFilter) (forgotten int, err error) {
	leave, err := s.Enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	note := &record{Forgets: &of}
	if err := s.ledger.write(note); err != nil || s.forgetDialect == nil {
		return note.forgotten, err
	}
	more, err := s.forgetDialect(of.Account, of.Key)
	return note.forgotten + more, err
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
