package payments

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/deadletters"
)

// letter is the dead letter of a case. One about a key holds what had been asked for, too: an operator has to hold the evidence against it.
func (s *Service) letter(g gathered, c Case) (deadletters.Letter, error) {
	id, err := s.newID()
	if err != nil {
		return deadletters.Letter{}, fmt.Errorf("make dead letter id: %w", err)
	}
	l := deadletters.Letter{ID: id, Kind: c.Kind, Finding: c.Finding, Reason: clip(c.Reason), Evidence: c.Evidence}
	if !c.AboutKey {
		return l, nil
	}
	about, subject := g.seen.about(), g.seen.Own.Subject
	l.About, l.Subject = &about, &subject
	l.Evidence, err = withAsked(c.Evidence, g.movement)
	return l, err
}

// withAsked adds to evidence what had been asked for.
func withAsked(evidence []byte, m movement) ([]byte, error) {
	kept := map[string]jsontext.Value{}
	if len(evidence) > 0 {
		if err := json.Unmarshal(evidence, &kept); err != nil {
			return nil, fmt.Errorf("read evidence: %w", err)
		}
	}
	amount, currency := m.terms()
	raw, err := json.Marshal(struct {
		AmountCents AmountMinor `json:"amountCents"`
		Currency    Currency    `json:"currency"`
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

// maxLetterReason is what the column takes, in characters.
const maxLetterReason = 500

func clip(s string) string {
	if r := []rune(s); len(r) > maxLetterReason {
		return string(r[:maxLetterReason])
	}
	return s
}
