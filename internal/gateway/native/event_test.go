package native

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/internal/gateway"
)

// exampleHeader has the headers of the example, edited.
func exampleHeader(edits ...func(http.Header)) http.Header {
	h := http.Header{}
	h.Set("webhook-id", exampleID)
	h.Set("webhook-timestamp", exampleTimestamp)
	h.Set("webhook-signature", exampleSignature)
	for _, edit := range edits {
		edit(h)
	}
	return h
}

func TestGenuineWebhookHasItsIDAndTime(t *testing.T) {
	t.Parallel()
	d, err := receiving(t, time.Second).VerifyEvent(exampleHeader(), []byte(exampleBody))
	if err != nil || d != (gateway.Delivery{ID: exampleID, SentAt: exampleSent}) {
		t.Fatalf("%+v, %v", d, err)
	}
}

// The sender is told what to do, and nothing of our secrets.
func TestRefusedWebhookSaysWhy(t *testing.T) {
	t.Parallel()
	const (
		missing = "Send the headers webhook-id, webhook-timestamp and webhook-signature."
		form    = "webhook-id must be 1 to 255 printable ASCII characters without spaces and full stops, " +
			"webhook-timestamp whole seconds since 1970; each once."
		unsigned = "No signature in webhook-signature is one of this webhook."
		late     = "webhook-timestamp is too far from now. Sign each attempt again, with the time of the attempt."
	)
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	none := func(name string) func(http.Header) { return func(h http.Header) { h.Del(name) } }
	again := func(name, value string) func(http.Header) { return func(h http.Header) { h.Add(name, value) } }
	for name, row := range map[string]struct {
		later  time.Duration
		edit   func(http.Header)
		reason error
		detail string
	}{
		"no id":           {0, none("webhook-id"), gateway.ErrHeaderMissing, missing},
		"no timestamp":    {0, none("webhook-timestamp"), gateway.ErrHeaderMissing, missing},
		"no signature":    {0, none("webhook-signature"), gateway.ErrHeaderMissing, missing},
		"a full stop":     {0, set("webhook-id", "evt.1"), gateway.ErrMalformed, form},
		"two ids":         {0, again("webhook-id", exampleID), gateway.ErrMalformed, form},
		"two timestamps":  {0, again("webhook-timestamp", exampleTimestamp), gateway.ErrMalformed, form},
		"a date":          {0, set("webhook-timestamp", "2021-02-25"), gateway.ErrMalformed, form},
		"another id":      {0, set("webhook-id", "evt_2"), gateway.ErrSignature, unsigned},
		"another version": {0, set("webhook-signature", "v2,abc"), gateway.ErrSignature, unsigned},
		"late":            {time.Hour, func(http.Header) {}, gateway.ErrStale, late},
		"early":           {-time.Hour, func(http.Header) {}, gateway.ErrStale, late},
	} {
		d, err := receiving(t, row.later).VerifyEvent(exampleHeader(row.edit), []byte(exampleBody))
		refused, ok := errors.AsType[*gateway.VerifyError](err)
		if !ok || !errors.Is(err, row.reason) || d != (gateway.Delivery{}) {
			t.Errorf("%s: %+v, error %v, want %v", name, d, err, row.reason)
			continue
		}
		if refused.Detail != row.detail || refused.Challenge != "StandardWebhooks" {
			t.Errorf("%s: detail %q, challenge %q", name, refused.Detail, refused.Challenge)
		}
		if strings.Contains(refused.Detail, strings.TrimPrefix(exampleSecret, secretPrefix)) {
			t.Errorf("%s: the secret is told", name)
		}
	}
}

// A list of signatures may stand in one header, or in several.
func TestSignaturesOfSeveralHeadersCount(t *testing.T) {
	t.Parallel()
	c := receiving(t, 0)
	for name, header := range map[string]http.Header{
		"the second": exampleHeader(func(h http.Header) {
			h.Set("webhook-signature", "v1,abc")
			h.Add("webhook-signature", exampleSignature)
		}),
		"the first": exampleHeader(func(h http.Header) { h.Add("webhook-signature", "v1,abc") }),
	} {
		if d, err := c.VerifyEvent(header, []byte(exampleBody)); err != nil || d.ID != exampleID {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestTraitsAreThoseOfTheMock(t *testing.T) {
	t.Parallel()
	traits := (&Client{}).Traits()
	if traits.Name != "native" || traits.KeyMemory != 24*time.Hour || traits.Proof != gateway.ProofByAbsence ||
		traits.TwoSteps || traits.NewestFirst || traits.ForeignRecords || traits.IgnoresEvents ||
		traits.Exponents != nil {
		t.Fatalf("traits %+v", traits)
	}
	if id, o := (&Client{}).Prepare(t.Context(), gateway.Charge{}); id != "" || o != nil {
		t.Fatalf("prepared %q, %v", id, o)
	}
}

func TestOnlyATokenOfThePSPIsSent(t *testing.T) {
	t.Parallel()
	refuses := (&Client{}).Traits().Refuses
	for _, token := range []string{"pm_ok", "pm_1", "pm_" + strings.Repeat("x", 61)} {
		if u := refuses(gateway.Charge{PaymentMethod: token}); u != nil {
			t.Errorf("%s is refused: %+v", token, u)
		}
	}
	for _, token := range []string{"", "pm_", "pm_OK", "PM_ok", "pm_a-b", "pm_ok\n", " pm_ok", "tok_visa",
		"4242424242424242", "pm_" + strings.Repeat("x", 62)} {
		u := refuses(gateway.Charge{PaymentMethod: token})
		if u == nil || u.Member != "token" || u.Detail != "must be a PSP token: pm_ and up to 61 lower-case letters, "+
			"digits or underscores" {
			t.Errorf("%q is taken, or refused as %+v", token, u)
		}
	}
}

const chargeData = `{"id":"ch_1","object":"charge","account":"acme","idempotencyKey":"order-0000000042","reference":"pay_1",` +
	`"amountCents":12000,"currency":"USD","status":"succeeded","createdAt":"2026-11-20T09:30:00Z"}`

func bodyOf(kind, data string) []byte {
	return []byte(`{"type":"` + kind + `","timestamp":"2026-11-20T09:30:01Z","data":` + data + `}`)
}

func TestPayloadIsATypeAndARecord(t *testing.T) {
	t.Parallel()
	declined := strings.Replace(chargeData, `"succeeded"`, `"declined","declineCode":"insufficient_funds"`, 1)
	asRefund := strings.NewReplacer(`"charge"`, `"refund","chargeId":"ch_1"`, "ch_1", "rf_1")
	for kind, data := range map[string]string{
		"charge.succeeded": chargeData, "charge.declined": declined,
		"refund.succeeded": asRefund.Replace(chargeData), "refund.declined": asRefund.Replace(declined),
	} {
		e, err := new(Client).ParseEvent(bodyOf(kind, data))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		want, err := parseRecord([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(gateway.Event(gateway.Moved{Type: kind, Record: want}), e); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		if string(want.Object)+"."+want.Status != kind {
			t.Errorf("%s is about a %s that has %s", kind, want.Object, want.Status)
		}
	}
	e, err := (&Client{}).ParseEvent(bodyOf("charge.succeeded", chargeData))
	if moved, ok := e.(gateway.Moved); err != nil || !ok || moved.Record.AmountMinor != 12000 ||
		!moved.Record.Created.Equal(time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestMembersThatWeDoNotKnowAreNotOurBusiness(t *testing.T) {
	t.Parallel()
	body := `{"apiVersion":2,"type":"charge.succeeded","data":` + strings.Replace(chargeData, "{", `{"fee":30,`, 1) +
		`}`
	if _, err := new(Client).ParseEvent([]byte(body)); err != nil {
		t.Error(err)
	}
}

func TestPayloadThatIsNoneIsRefusedAndNotRepeated(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing": "", "no JSON": "canary", "cut off": `{"type":"charge.succeeded","data":`,
		"two":  string(bodyOf("charge.succeeded", chargeData)) + "{}",
		"null": "null", "an array": "[]", "no type": `{"data":` + chargeData + `}`,
		"type is null":     `{"type":null,"data":` + chargeData + `}`,
		"type is a number": `{"type":1,"data":` + chargeData + `}`,
		"another case":     `{"Type":"charge.succeeded","data":` + chargeData + `}`,
		"no data":          `{"type":"charge.succeeded"}`, "data is null": `{"type":"charge.succeeded","data":null}`,
		"data is text":  `{"type":"charge.succeeded","data":"canary"}`,
		"type twice":    `{"type":"charge.declined","type":"charge.succeeded","data":` + chargeData + `}`,
		"data twice":    `{"type":"charge.succeeded","data":{},"data":` + chargeData + `}`,
		"no UTF-8":      `{"type":"charge.succeeded","x":"` + "\xff" + `","data":` + chargeData + `}`,
		"broken record": string(bodyOf("charge.succeeded", strings.Replace(chargeData, "USD", "canary", 1))),
		"other status":  string(bodyOf("charge.declined", chargeData)),
		"other object":  string(bodyOf("refund.succeeded", chargeData)),
	} {
		e, err := new(Client).ParseEvent([]byte(body))
		if wantErr(t, err, gateway.ErrPayload); strings.Contains(err.Error(), "canary") || e != nil {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// The dead letter of such a webhook tells an operator what is wrong: the record, not that type and data differ.
func TestRecordThatIsMalformedIsNotAContradiction(t *testing.T) {
	t.Parallel()
	for data, says := range map[string]string{
		strings.Replace(chargeData, "USD", "canary", 1):               "record with a malformed currency",
		strings.Replace(chargeData, `"succeeded"`, `"declined"`, 1):   "record without a declineCode",
		strings.Replace(chargeData, `"2026-11-20T09:30:00Z"`, `0`, 1): "record is not the JSON of one",
	} {
		_, err := new(Client).ParseEvent(bodyOf("charge.succeeded", data))
		if wantErr(t, err, gateway.ErrPayload); !strings.HasSuffix(err.Error(), ": "+says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func TestTypeThatNobodyKnowsIsNamedAsSuch(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"payout.paid", "charge", "charge.", "charge.pending", "Charge.Succeeded",
		"charge.succeeded ", "charge.succeeded.v2"} {
		_, err := new(Client).ParseEvent(bodyOf(kind, `{"canary":1}`))
		wantErr(t, err, gateway.ErrUnknownType)
	}
}

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
		e, err := new(Client).ParseEvent(body)
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
		again, err := new(Client).ParseEvent(bodyOf(ours, string(moved.Record.Evidence())))
		if err != nil || again != e {
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
		c := &Client{webhookSecrets: [][]byte{key}}
		if !c.signed(exampleID, exampleTimestamp, signature, []byte(exampleBody)) {
			t.Fatal("the reference's signature is not ours")
		}
	})
}
