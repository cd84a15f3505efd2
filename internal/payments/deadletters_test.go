package payments

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// An operator compares the evidence with what was asked. Evidence that would not be whole, or no text, is not stored as
// if it was.
func TestDeadLetterHasAllOfItsEvidence(t *testing.T) {
	t.Parallel()
	asked := payment.Payment{Amount: 12000, Currency: "USD"}
	odd := payment.Payment{Amount: 12000, Currency: "\xff"}
	for name, c := range map[string]struct {
		evidence string
		of       payment.Payment
		want     string // empty: an error
	}{
		"none":                 {"", asked, `{"asked":{"amountCents":12000,"currency":"USD"}}`},
		"some":                 {`{"b":1}`, asked, `{"asked":{"amountCents":12000,"currency":"USD"},"b":1}`},
		"cut off":              {`{"b":1`, asked, ""},
		"asked for in no text": {`{"b":1}`, odd, ""},
	} {
		got, err := withAsked([]byte(c.evidence), &movement{payment: &c.of})
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// openAbout opens a dead letter about a key at Stripe, and returns it.
func (s *twoSteps) openAbout(key string, kind deadletters.Kind) deadletters.DeadLetter {
	s.t.Helper()
	ref := idempotency.Ref{Tenant: "initech", Operation: payment.CreateOperation, Key: keyed(s.t, key).Key}
	row, err := s.keys.Find(s.t.Context(), ref)
	if err != nil {
		s.t.Fatal(err)
	}
	subject := row.Execution().Subject
	l := deadletters.DeadLetter{
		ID: uuid.New(), Kind: kind, Finding: string(kind), Subject: &subject, Evidence: []byte("{}"),
		About: &deadletters.About{Tenant: "initech", Operation: string(payment.CreateOperation), Key: key,
			Generation: 1},
	}
	if err := s.service.db.Pipeline(s.t.Context(), deadletters.Open(l)); err != nil {
		s.t.Fatal(err)
	}
	stored, err := deadletters.Get(s.t.Context(), s.service.db.Reader(), l.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return stored
}

// A decision is refused while another dead letter about the key is open. What the PSP has cancelled cannot be taken
// back, so the PSP is only read then.
func TestDecisionThatAnotherDeadLetterForbidsEndsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others int
		want   bool // the payment is cancelled
	}{"alone": {0, true}, "another is open": {1, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupTwoSteps(t)
			is[Pending](t, s.pay(twoStepKey, "pm_requires_action_abandoned"))
			deadLetter := s.openAbout(twoStepKey, deadletters.LookupsExhausted)
			for range c.others {
				s.openAbout(twoStepKey, deadletters.PSPContradicts)
			}
			if _, err := s.service.Inquire(t.Context(), deadLetter,
				judge.OperatorDecision{Action: deadletters.NotExecuted, Version: deadLetter.Version}); err != nil {
				t.Fatal(err)
			}
			if cancelled := strings.Contains(s.steps(), "cancel"); cancelled != c.want {
				t.Errorf("steps %q, want a cancellation: %t", s.steps(), c.want)
			}
		})
	}
}
