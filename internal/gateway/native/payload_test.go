package native

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

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
		e, err := parseEvent(bodyOf(kind, data))
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
	if _, err := parseEvent([]byte(body)); err != nil {
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
		e, err := parseEvent([]byte(body))
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
		_, err := parseEvent(bodyOf("charge.succeeded", data))
		if wantErr(t, err, gateway.ErrPayload); !strings.HasSuffix(err.Error(), ": "+says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func TestTypeThatNobodyKnowsIsNamedAsSuch(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"payout.paid", "charge", "charge.", "charge.pending", "Charge.Succeeded",
		"charge.succeeded ", "charge.succeeded.v2"} {
		_, err := parseEvent(bodyOf(kind, `{"canary":1}`))
		wantErr(t, err, gateway.ErrUnknownType)
	}
}
