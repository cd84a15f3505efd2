package payments

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// deadLetter makes the dead letter that a step opens. A dead letter about a key also holds the amount and currency that
// the client asked for, so that an operator can compare the evidence with them.
func (s *Service) deadLetter(g gathered, step judge.Step) (*deadletters.DeadLetter, error) {
	id, err := s.newID()
	if err != nil {
		return nil, fmt.Errorf("make dead letter id: %w", err)
	}
	c := *step.Open
	l := &deadletters.DeadLetter{
		ID: id, Kind: c.Kind, Finding: c.Finding, Reason: judge.Clip(c.Reason), Evidence: c.Evidence,
		BehindStep: step.Guarded(),
	}
	if !c.AboutKey {
		return l, nil
	}
	about, subject := g.seen.About(), g.seen.Own.Subject
	l.About = &about
	if !g.seen.Known() {
		return l, nil // The PSP has moved money under this key, and nothing of ours asked for it.
	}
	l.Subject = &subject
	l.Evidence, err = withAsked(c.Evidence, g.movement)
	return l, err
}

// withAsked adds the amount and currency of the movement to evidence.
func withAsked(evidence []byte, m *movement) ([]byte, error) {
	kept := map[string]jsontext.Value{}
	if len(evidence) > 0 {
		if err := json.Unmarshal(evidence, &kept); err != nil {
			return nil, fmt.Errorf("read evidence: %w", err)
		}
	}
	amount, currency := m.terms()
	raw, err := json.Marshal(struct {
		AmountCents payment.AmountMinor `json:"amountCents"`
		Currency    payment.Currency    `json:"currency"`
	}{amount, currency})
	if err != nil {
		return nil, fmt.Errorf("marshal what was asked: %w", err)
	}
	kept["asked"] = raw
	whole, err := json.Marshal(kept, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("marshal evidence: %w", err)
	}
	return whole, nil
}
