package mockpsp

import "time"

// promiseLate records that the draft will land LateDelay from now. The promise is durable when it returns.
func (s *Server) promiseLate(draft *record) error {
	draft.DueAt = s.config.Now().Add(s.config.LateDelay).UTC()
	if err := s.ledger.write(draft); err != nil {
		return err
	}
	s.late.Start(s.config.LateDelay, func() { s.landLate(draft) })
	return nil
}

// landLate keeps a promise. When the ledger cannot be written, the promise stays in it for the next start.
func (s *Server) landLate(promise *record) {
	landing := *promise
	landing.DueAt = time.Time{}
	if err := s.ledger.write(&landing); err != nil {
		s.config.Log.Error("late entry could not be written", "error", err)
		return
	}
	s.webhooks.release(s.expect(&landing)) // its call has ended long ago
}

// Due counts the late charges and refunds that have not landed yet. A test that waits until it is 0 has seen all of
// them.
func (s *Server) Due() int { return s.late.Len() }
