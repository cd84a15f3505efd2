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
