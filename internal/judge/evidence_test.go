package judge

import (
	"encoding/json"
	"strings"
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// A step is sent to the database if it has anything to write, and passes a guard if it moves the key or its next
// lookup.
func TestStepSaysHowItIsWritten(t *testing.T) {
	t.Parallel()
	unknown, note := idempotency.UnknownStatus, idempotency.Note{Actor: "webhook"}
	for want, steps := range map[string][]Step{
		"writes nothing, confirmed":  {{}},
		"writes nothing, left_alone": {{leftAlone: true}},
		"confirmed": {{note: note}, {named: "psp_1"}, {elsewhere: &gateway.Record{}},
			{reversal: &payment.Verdict{}}},
		"dead_letter":          {{open: &Case{}}},
		"answered":             {{answer: &Case{}}},
		"guarded, unknown":     {{to: unknown}, {open: &Case{}, to: unknown}},
		"guarded, ask_again":   {{askAgain: &Wait{}}},
		"guarded, dead_letter": {{open: &Case{}, askAgain: &Wait{}}},
	} {
		for _, s := range steps {
			got := without(s.Guarded(), "guarded, ") + without(s.WritesNothing(), "writes nothing, ") + s.Label()
			if got != want {
				t.Errorf("%+v: %s, want %s", s, got, want)
			}
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
		id := DeadLetterOf(deadLetter).PSPID
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
