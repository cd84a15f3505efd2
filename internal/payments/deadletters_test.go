package payments

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
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

// The column counts characters. A reason that is too long would keep its dead letter from being opened.
func TestReasonIsCutToItsColumn(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, maxDeadLetterReason: maxDeadLetterReason,
		maxDeadLetterReason + 1: maxDeadLetterReason} {
		if got := clip(strings.Repeat("ä", n)); got != strings.Repeat("ä", want) {
			t.Errorf("of %d characters, %d are left", n, len([]rune(got)))
		}
	}
}

// The id that an operator's decision takes from a dead letter's evidence is in the evidence, can be stored, and is not
// that of a refusal or of another key.
func FuzzIDInEvidence(f *testing.F) {
	const record = `{"id":"ch_1","status":"succeeded","idempotencyKey":"order-0000000042","reference":""}`
	f.Add([]byte(record))
	f.Add([]byte(`{"status":201,"answer":` + record + `}`))
	f.Add([]byte(`{"record":{"id":"ch_2","status":"declined"},"id":7}`))
	f.Fuzz(func(t *testing.T, evidence []byte) {
		deadLetter := deadletters.DeadLetter{
			Evidence: evidence, About: &deadletters.About{Tenant: "acme", Operation: "POST /payments",
				Key: "order-0000000042", Generation: 1},
		}
		id := deadLetterSeen(deadLetter).PSPID
		if id == "" {
			return
		}
		if !gateway.IsID(id) || len(id) > 255 || strings.ContainsAny(id, " \x00") {
			t.Fatalf("%q is taken for an id", id)
		}
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(evidence, &whole); err != nil {
			t.Fatalf("%q is found in what is no JSON: %v", id, err)
		}
		for _, place := range []json.RawMessage{whole["answer"], whole["record"], evidence} {
			var says map[string]any
			if json.Unmarshal(place, &says) == nil && says["id"] == id && says["status"] != "declined" &&
				(says["idempotencyKey"] == nil || says["idempotencyKey"] == "" ||
					says["idempotencyKey"] == "order-0000000042") {
				return
			}
		}
		t.Fatalf("%q is found in %s", id, evidence)
	})
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
				OperatorDecision{Action: deadletters.NotExecuted, Version: deadLetter.Version}); err != nil {
				t.Fatal(err)
			}
			if cancelled := strings.Contains(s.steps(), "cancel"); cancelled != c.want {
				t.Errorf("steps %q, want a cancellation: %t", s.steps(), c.want)
			}
		})
	}
}
