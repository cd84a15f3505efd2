package mockpsp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
)

// execute does what a POST with a key asks for, at most once: it replays, refuses, or acts the fault out. The draft
// says what is wanted and carries the fault that the caller's token picked.
func (s *Server) execute(c *call, draft *record) (Reply, error) {
	verdict, known := s.ledger.reserve(draft.ref(), draft.BodyHash)
	switch verdict {
	case keyMismatch:
		return Reply{}, mismatch()
	case keyBusy:
		return Reply{}, apiError{http.StatusConflict, "idempotency_key_in_use",
			"a request with this Idempotency-Key is still being executed"}
	case keyKnown:
		c.note.Fault(string(known.Fault))
		return known.reply(true), nil
	case keyReserved: // ours from here on
	}
	defer s.ledger.release(draft.ref())

	if known != nil { // charged before, and stuck: it stays silent
		c.note.Fault(string(known.Fault))
		return s.end(c, EndSilence, known), nil
	}
	does := behaviours[draft.Fault]
	switch {
	case draft.Fault == faultOK:
		draft.Fault = fault(s.DrawFault())
	case does.once && s.ledger.hasFailed(draft.ref()):
		draft.Fault = faultOK // the outage is over
	default:
		draft.Outage = does.once
	}
	c.note.Fault(string(draft.Fault))
	return s.act(c, draft)
}

func mismatch() apiError {
	return apiError{http.StatusUnprocessableEntity, "idempotency_mismatch",
		"this Idempotency-Key was sent before with another body"}
}

// act is the table of faults at work: pause, write, end.
func (s *Server) act(c *call, draft *record) (Reply, error) {
	does := behaviours[draft.Fault]
	if does.slow {
		s.Pause(s.config.SlowDelay)
	}
	switch {
	case draft.Outage:
		// Before the call ends: a restart must not make the key fail once more.
		if err := s.ledger.write(draft); err != nil {
			return Reply{}, fmt.Errorf("note outage: %w", err)
		}
	case does.late:
		if err := s.promiseLate(draft); err != nil {
			return Reply{}, fmt.Errorf("promise late entry: %w", err)
		}
	case does.moves:
		second := draft.furtherDraft()
		if err := s.writeEntry(c, draft); err != nil {
			return Reply{}, err
		}
		if second == nil {
			break
		}
		if err := s.writeEntry(c, second); err != nil {
			return Reply{}, err
		}
	}
	return s.end(c, does.ending, draft), nil
}

func (s *Server) writeEntry(c *call, draft *record) error {
	if err := s.ledger.write(draft); err != nil {
		return fmt.Errorf("write entry: %w", err)
	}
	c.tells = append(c.tells, s.expect(draft))
	return nil
}

func (s *Server) end(c *call, how Ending, written *record) Reply {
	switch how {
	case EndServerError:
		return errorReply(apiError{http.StatusInternalServerError, "internal_error", "something went wrong"})
	case EndSilence:
		s.Hold(c.w, c.r)
		return Reply{Ending: EndCut}
	case EndCut, EndReset:
		return Reply{Ending: how}
	default:
		return written.reply(false)
	}
}

// hashRequest fingerprints what was asked for, not how it was spelled: it takes the parsed request.
func hashRequest(request any) (string, error) {
	canonical, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("render request: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// keyState is what the PSP remembers of a key. It exists from the first reservation on. Where that had no effect (a
// random fault that does not charge) only memory keeps it: after a restart such a key is as good as new.
type keyState struct {
	bodyHash  string
	inFlight  bool
	late      bool // promised to land; until then as good as in flight
	hasFailed bool // by a token that fails once for each key
	forgotten bool // with the end of the call that executes it
	record    *record
}

// hasEnded is false while the key's own request may still write an entry.
func (s *keyState) hasEnded() bool { return !s.late && (!s.inFlight || s.record != nil) }

type keyVerdict int

const (
	keyReserved keyVerdict = iota // the caller executes and must release
	keyKnown                      // replay the record
	keyBusy                       // somebody else executes
	keyMismatch                   // it stood for another request
)

// reserve takes the right to execute a key, at most one caller at a time. It returns the key's record when there is
// one: to be replayed with keyKnown; with keyReserved it belongs to a stuck charge, whose repeats hang too.
func (l *ledger) reserve(ref keyRef, bodyHash string) (keyVerdict, *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.keys[ref]
	switch {
	case state == nil:
		l.keys[ref] = &keyState{bodyHash: bodyHash, inFlight: true}
		return keyReserved, nil
	case state.bodyHash != bodyHash:
		return keyMismatch, nil
	case state.inFlight || state.late:
		return keyBusy, nil
	case state.record != nil && !state.record.lookupsFail():
		return keyKnown, state.record
	default:
		state.inFlight = true
		return keyReserved, state.record
	}
}

// release ends a reservation. The key's record, if there is one by now, answers from here on.
func (l *ledger) release(ref keyRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[ref].inFlight = false
	if l.keys[ref].forgotten {
		delete(l.keys, ref)
	}
}

// knows reports whether the key stands for a request.
func (l *ledger) knows(ref keyRef) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.keys[ref] != nil
}

// hasFailed reports whether the key has met a fault that strikes once. The caller holds the reservation.
func (l *ledger) hasFailed(ref keyRef) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.keys[ref].hasFailed
}

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
