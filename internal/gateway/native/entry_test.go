package native_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
)

// The PSP's records of aCharge and aRefund.
const (
	chargeHeld = `{"id":"ch_1","object":"charge","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"pay_canary","amountCents":12000,"currency":"USD","paymentMethod":"pm_canary","status":"succeeded",` +
		`"createdAt":"2026-11-20T12:00:00.000001Z"}`
	chargeRefused = `{"id":"ch_2","object":"charge","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"pay_canary","amountCents":12000,"currency":"USD","status":"declined","declineCode":"insufficient_funds",` +
		`"createdAt":"2026-11-20T12:00:00.000002Z"}`
	refundHeld = `{"id":"rf_1","object":"refund","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"re_canary","chargeId":"ch_1","amountCents":500,"currency":"USD","reason":"canary reason","status":"succeeded",` +
		`"createdAt":"2026-11-20T12:00:00.000003Z"}`
)

// noon is when the ledger of these tests begins.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func parsed(t *testing.T, raw string) gateway.Record {
	t.Helper()
	r, err := native.ParseRecord([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordIsReadWhole(t *testing.T) {
	t.Parallel()
	want := gateway.Record{
		Object: gateway.RefundObject, ID: "rf_1", Account: "canary-account", Key: "canary-key-0123456789",
		Reference: "re_canary",
		ChargeID:  "ch_1", AmountMinor: 500, Currency: "USD", Status: "succeeded",
		Created: noon.Add(3 * time.Microsecond),
	}
	if diff := cmp.Diff(want, parsed(t, refundHeld)); diff != "" {
		t.Fatalf("record differs (-want +got):\n%s", diff)
	}
	want = gateway.Record{
		Object: gateway.ChargeObject, ID: "ch_2", Account: "canary-account", Key: "canary-key-0123456789",
		Reference:   "pay_canary",
		AmountMinor: 12000, Currency: "USD", Status: "declined", DeclineCode: "insufficient_funds",
		Created: noon.Add(2 * time.Microsecond),
	}
	if diff := cmp.Diff(want, parsed(t, chargeRefused)); diff != "" {
		t.Fatalf("record differs (-want +got):\n%s", diff)
	}
}

// What a member may hold is tried in package gateway. Here, each member is missing once, or cannot be read.
func TestMalformedRecordIsRefusedByMember(t *testing.T) {
	t.Parallel()
	for member, edits := range map[string][][2]string{
		"object":      {{`"object":"refund",`, ``}},
		"id":          {{`"id"`, `"ID"`}},
		"account":     {{`"account":"canary-account",`, ``}},
		"chargeId":    {{`"chargeId":"ch_1",`, ``}},
		"amountCents": {{`500`, `null`}, {`"amountCents":500,`, ``}},
		"currency":    {{`"currency":"USD",`, ``}},
		"status":      {{`"status":"succeeded",`, ``}},
		"createdAt": {{`2026-11-20T12:00:00.000003Z`, `2026-11-20 12:00:00`},
			{`2026-11-20T12:00:00.000003Z`, `2026-11-31T12:00:00Z`}, {`"createdAt"`, `"created"`}},
	} {
		for _, edit := range edits {
			refusedRecord(t, replace(refundHeld, edit[0], edit[1]), "record with a malformed "+member)
		}
	}
	refusedRecord(t, replace(chargeRefused, `"declineCode":"insufficient_funds",`, ``), "record without a declineCode")
}

// refusedRecord checks the reason in whole: nothing of the record is in it.
func refusedRecord(t *testing.T, raw, reason string) {
	t.Helper()
	if r, err := native.ParseRecord([]byte(raw)); err == nil || err.Error() != reason || r != (gateway.Record{}) {
		t.Errorf("%.200s\nis read as %+v, error %v; want: %s", raw, r, err, reason)
	}
}

// Whatever is taken can be kept, and says the same when it is read again.
func FuzzParseRecord(f *testing.F) {
	for _, raw := range []string{
		chargeHeld, chargeRefused, refundHeld, replace(chargeHeld, `pay_canary`, `\u0000\ud83d\ude00`),
		replace(chargeHeld, `12000`, `0`),
		replace(chargeHeld, `2026-11-20T12:00:00.000001Z`, `9999-12-31T23:59:59.999999999-00:01`),
		replace(chargeHeld, `ch_1`, `ch_1","x":1e999,"y":"`),
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := native.ParseRecord(raw)
		if err != nil {
			return
		}
		evidence := r.Evidence()
		if !jsontext.Value(evidence).IsValid() || strings.Contains(string(evidence), `\u0000`) {
			t.Fatalf("the database would not take the evidence %q", evidence)
		}
		again, err := gateway.ParseRecord(evidence)
		if err != nil {
			t.Fatalf("the evidence %s of %+v is no record: %v", evidence, r, err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatalf("the evidence differs (-record +evidence):\n%s", diff)
		}
		if r.AmountMinor < 0 || r.ID == "" || r.Account == "" || r.Executed() == (r.DeclineCode != "") {
			t.Fatalf("taken: %+v", r)
		}
	})
}
