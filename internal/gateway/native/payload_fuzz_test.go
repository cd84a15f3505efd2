package native

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/internal/gateway"
)

// A message that is understood is understood alike by the standard library, and by ourselves when it is written once
// more; one that is refused is not repeated in the refusal.
func FuzzPayload(f *testing.F) {
	f.Add(bodyOf("charge.succeeded", chargeData))
	f.Add(bodyOf("payout.paid", chargeData))
	f.Add(bodyOf("charge.declined", chargeData))
	refusals := func(err error) bool {
		words := strings.TrimPrefix(err.Error(), gateway.ErrPayload.Error()+": ")
		return err.Error() == gateway.ErrUnknownType.Error() || words == "not the JSON of an event" ||
			words == "no type" || words == "its type and its data contradict each other" ||
			strings.HasPrefix(words, "record ") && len(words) < 60
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := parseEvent(body)
		if err != nil {
			if !errors.Is(err, gateway.ErrPayload) && !errors.Is(err, gateway.ErrUnknownType) || !refusals(err) ||
				e != nil {
				t.Fatalf("refused with %v, and %+v", err, e)
			}
			return
		}
		moved, ok := e.(gateway.Moved)
		if !ok {
			t.Fatalf("a %T of a PSP that sends nothing but movements", e)
		}
		var theirs map[string]json.RawMessage
		if err := json.Unmarshal(body, &theirs); err != nil {
			t.Fatalf("taken, but not by encoding/json: %v", err)
		}
		ours := string(moved.Record.Object) + "." + moved.Record.Status
		var kind string
		if err := json.Unmarshal(theirs["type"], &kind); err != nil || kind != ours {
			t.Fatalf("is a %q, to encoding/json a %q", ours, kind)
		}
		if r, err := parseRecord(theirs["data"]); err != nil || r != moved.Record {
			t.Fatalf("speaks of %+v, to encoding/json of %+v, %v", moved.Record, r, err)
		}
		if again, err := parseEvent(bodyOf(ours, string(moved.Record.Evidence()))); err != nil || again != e {
			t.Fatalf("%+v, and when written once more %+v, %v", e, again, err)
		}
	})
}

// A secret that is taken signs as it does in the reference implementation, and the refusal of another says nothing of
// it.
func FuzzSecret(f *testing.F) {
	f.Add(exampleSecret)
	f.Add("whsec_")
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS\nw")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parseSecret(text)
		if err != nil {
			if len(text) > 8 && strings.Contains(err.Error(), strings.TrimPrefix(text, secretPrefix)) {
				t.Fatalf("the refusal repeats the secret: %v", err)
			}
			return
		}
		if len(key) < 24 || len(key) > 64 {
			t.Fatalf("%q is taken, of %d bytes", text, len(key))
		}
		w, err := reference.NewWebhook(text)
		if err != nil {
			t.Fatalf("taken, but not by the reference: %v", err)
		}
		signature, err := w.Sign(exampleID, exampleSent, []byte(exampleBody))
		if err != nil {
			t.Fatal(err)
		}
		if !(&Verifier{secrets: [][]byte{key}}).signed(exampleID, exampleTimestamp, signature, []byte(exampleBody)) {
			t.Fatal("the reference's signature is not ours")
		}
	})
}
