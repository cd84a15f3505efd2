package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

// The stored records of aCharge and aRefund. This text is in databases: a change of it makes their evidence unreadable.
const (
	chargeStored = `{"id":"ch_1","object":"charge","account":"canary-account",` +
		`"idempotencyKey":"canary-key-0123456789","reference":"pay_canary","amountCents":12000,"currency":"USD",` +
		`"status":"succeeded","createdAt":"2026-11-20T12:00:00.000001Z"}`
	chargeRefusedStored = `{"id":"ch_1","object":"charge","account":"canary-account",` +
		`"idempotencyKey":"canary-key-0123456789","reference":"pay_canary","amountCents":12000,"currency":"USD",` +
		`"status":"declined","declineCode":"insufficient_funds","createdAt":"2026-11-20T12:00:00.000001Z"}`
	refundStored = `{"id":"rf_1","object":"refund","account":"canary-account",` +
		`"idempotencyKey":"canary-key-0123456789","reference":"re_canary","chargeId":"ch_1","amountCents":500,` +
		`"currency":"USD","status":"succeeded","createdAt":"2026-11-20T12:00:00.000003Z"}`
	// Nobody has made this record: each member that may be empty is.
	emptiestStored = `{"id":"ch_1","object":"charge","account":"canary-account","idempotencyKey":"","reference":"",` +
		`"amountCents":0,"currency":"USD","status":"succeeded","createdAt":"2026-11-20T12:00:00Z"}`
)

func parsed(t *testing.T, raw string) gateway.Record {
	t.Helper()
	r, err := gateway.ParseRecord([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replace fails if there is nothing to replace.
func replace(s, from, to string) string {
	if !strings.Contains(s, from) {
		panic("nothing to replace: " + from)
	}
	return strings.Replace(s, from, to, 1)
}

// No dialect of a PSP is needed to read it, and none can change it.
func TestStoredFormOfARecordNeverChanges(t *testing.T) {
	t.Parallel()
	for raw, r := range map[string]gateway.Record{
		chargeStored: charged(), refundStored: refunded(), chargeRefusedStored: charged(declined("insufficient_funds")),
		emptiestStored: charged(func(r *gateway.Record) {
			r.Key, r.Reference, r.AmountMinor, r.Created = "", "", 0, noon
		}),
	} {
		if diff := cmp.Diff(raw, string(r.Evidence())); diff != "" {
			t.Errorf("evidence differs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(r, parsed(t, raw)); diff != "" {
			t.Errorf("record differs from its evidence (-want +got):\n%s", diff)
		}
	}
}

// Whatever the time zone of a record, its evidence is in UTC, to the nanosecond.
func TestStoredTimeIsInUTC(t *testing.T) {
	t.Parallel()
	r := charged(func(r *gateway.Record) { r.Created = noon.Add(1).In(time.FixedZone("KST", 9*60*60)) })
	if raw := string(r.Evidence()); !strings.Contains(raw, `"createdAt":"2026-11-20T12:00:00.000000001Z"`) {
		t.Fatalf("evidence %s", raw)
	}
}

// Half of a record would be no JSON, and the database would refuse the whole step.
func TestRecordThatCannotBeWrittenHasNoEvidence(t *testing.T) {
	t.Parallel()
	if raw := charged(func(r *gateway.Record) { r.Reference = "\xff" }).Evidence(); raw != nil {
		t.Fatalf("evidence %q", raw)
	}
}

// Evidence is read for years, also by a program that knows fewer members than the one that has written it.
func TestStoredRecordMayHaveFurtherMembers(t *testing.T) {
	t.Parallel()
	if r := parsed(t, replace(chargeStored, `{`, `{"net":{"a":[1.5e300,null]},`)); r != charged() {
		t.Fatalf("record %+v", r)
	}
}

// The whole table of members is that of Accept. Each member is missing once here.
func TestStoredRecordWithoutAMemberIsRefused(t *testing.T) {
	t.Parallel()
	for member, from := range map[string]string{
		"object": `"object":"refund",`, "id": `"id":"rf_1",`, "account": `"account":"canary-account",`,
		"chargeId": `"chargeId":"ch_1",`, "amountCents": `"amountCents":500,`, "currency": `"currency":"USD",`,
		"status": `"status":"succeeded",`, "createdAt": `,"createdAt":"2026-11-20T12:00:00.000003Z"`,
	} {
		refusedRecord(t, replace(refundStored, from, ""), "record with a malformed "+member)
	}
	for _, created := range []string{``, `2026-11-20 12:00:00`, `2026-11-31T12:00:00Z`, `0001-01-01T00:00:00Z`,
		`9999-12-31T23:59:59-12:00`} {
		refusedRecord(t, replace(refundStored, `2026-11-20T12:00:00.000003Z`, created),
			"record with a malformed createdAt")
	}
	refusedRecord(t, replace(refundStored, `500`, `null`), "record with a malformed amountCents")
	refusedRecord(t, replace(refundStored, `"id"`, `"ID"`), "record with a malformed id")
	refusedRecord(t, replace(chargeRefusedStored, `"declineCode":"insufficient_funds",`, ``),
		"record without a declineCode")
}

func TestRecordThatIsNotTheJSONOfOneIsRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"", "[]", `"canary"`, "<html>", refundStored[:len(refundStored)-1], refundStored + "{}",
		"[" + refundStored + "]", replace(refundStored, `{`, `{"status":"succeeded",`),
		replace(refundStored, `500`, `"500"`), replace(refundStored, `500`, `500.0`),
		replace(refundStored, `500`, `99999999999999999999`), replace(refundStored, `re_canary`, "\xff"),
		replace(refundStored, `"re_canary"`, `{}`), replace(refundStored, `"refund"`, `1`),
	} {
		refusedRecord(t, raw, "record is not the JSON of one")
	}
	refusedRecord(t, "null", "record with a malformed object")
}

// refusedRecord checks the reason in whole: nothing of the record is in it.
func refusedRecord(t *testing.T, raw, reason string) {
	t.Helper()
	if r, err := gateway.ParseRecord([]byte(raw)); err == nil || err.Error() != reason || r != (gateway.Record{}) {
		t.Errorf("%.200s\nis read as %+v, error %v; want: %s", raw, r, err, reason)
	}
}

// Whatever is taken can be kept, and says the same when it is read again.
func FuzzParseRecord(f *testing.F) {
	for _, raw := range []string{
		chargeStored, chargeRefusedStored, refundStored, emptiestStored,
		replace(chargeStored, `pay_canary`, `\u0000\ud83d\ude00`), replace(chargeStored, `12000`, `0`),
		replace(chargeStored, `2026-11-20T12:00:00.000001Z`, `9999-12-31T23:59:59.999999999-00:01`),
		replace(chargeStored, `ch_1`, `ch_1","x":1e999,"y":"`),
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := gateway.ParseRecord(raw)
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
