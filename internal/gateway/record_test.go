package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

func accepted(t *testing.T, r gateway.Record) gateway.Record {
	t.Helper()
	r, err := r.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAcceptedRecordIsTheSame(t *testing.T) {
	t.Parallel()
	for _, r := range []gateway.Record{
		charged(), refunded(), charged(declined("insufficient_funds")), refunded(declined("refund_exceeds_charge")),
		charged(declined("")), // a statement has no codes
	} {
		if diff := cmp.Diff(r, accepted(t, r)); diff != "" {
			t.Errorf("record differs (-want +got):\n%s", diff)
		}
	}
	seoul := time.FixedZone("KST", 9*60*60)
	r := accepted(t, charged(func(r *gateway.Record) { r.Created = r.Created.In(seoul) }))
	if r != charged() {
		t.Errorf("the time is not in UTC: %s", r.Created)
	}
}

// Others use the account, too. What they put into a record must not make it unreadable, nor unfit for the database.
func TestRecordOfOthersIsAccepted(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("💸", 255)
	for name, row := range map[string]struct {
		edit           func(*gateway.Record)
		key, reference string
	}{
		"no key": {func(r *gateway.Record) { r.Key = "" }, "", "pay_canary"},
		"a key of another way": {func(r *gateway.Record) { r.Key = "a key, of theirs" }, "a key, of theirs",
			"pay_canary"},
		"no reference": {func(r *gateway.Record) { r.Reference = "" }, "canary-key-0123456789", ""},
		"U+0000": {func(r *gateway.Record) { r.Key, r.Reference = "k\x00", "pay\x00" }, "k\uFFFD",
			"pay\uFFFD"},
		"the longest": {func(r *gateway.Record) { r.Key, r.Reference = longest, longest }, longest, longest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := accepted(t, charged(row.edit))
			if r.Key != row.key || r.Reference != row.reference {
				t.Fatalf("key %q, reference %q", r.Key, r.Reference)
			}
		})
	}
}

func TestMalformedRecordIsRefusedByMember(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1025)
	nuls := strings.Repeat("\x00", 342) // each becomes three bytes
	set := func(member func(*gateway.Record) *string, values ...string) (edits []func(*gateway.Record)) {
		for _, value := range values {
			edits = append(edits, func(r *gateway.Record) { *member(r) = value })
		}
		return edits
	}
	at := func(times ...time.Time) (edits []func(*gateway.Record)) {
		for _, created := range times {
			edits = append(edits, func(r *gateway.Record) { r.Created = created })
		}
		return edits
	}
	for member, edits := range map[string][]func(*gateway.Record){
		"object": set(func(r *gateway.Record) *string { return (*string)(&r.Object) }, "", "payout", "Refund"),
		"id": set(func(r *gateway.Record) *string { return &r.ID },
			"", "rf 1", "rf_\x00", "rf_\x7f", "rf_é", "rf\n1", long[:256], gateway.OwnPrefix+"1"),
		"account":        set(func(r *gateway.Record) *string { return &r.Account }, "", long, nuls),
		"idempotencyKey": set(func(r *gateway.Record) *string { return &r.Key }, long, nuls),
		"reference":      set(func(r *gateway.Record) *string { return &r.Reference }, long),
		"chargeId":       set(func(r *gateway.Record) *string { return &r.ChargeID }, "", "ch 1", long[:256]),
		"amountCents":    {func(r *gateway.Record) { r.AmountMinor = -1 }},
		"currency": set(func(r *gateway.Record) *string { return &r.Currency },
			"", "usd", "US", "USDT", "U\nD", "USD\n"),
		"status": set(func(r *gateway.Record) *string { return &r.Status }, "", "pending", "Succeeded"),
		"declineCode": append(set(func(r *gateway.Record) *string { return &r.DeclineCode }, "insufficient_funds"),
			declined("<script>"), declined(long[:65]), declined("Capitals")),
		"createdAt": at(time.Time{}, time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
			time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -12*60*60))),
	} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			for i, edit := range edits {
				r, err := refunded(edit).Accept()
				// The reason in whole: nothing of the record is in it.
				if err == nil || err.Error() != "record with a malformed "+member || r != (gateway.Record{}) {
					t.Errorf("edit %d: accepted as %+v, error %v", i, r, err)
				}
			}
		})
	}
}

// What is just within the limits is accepted.
func TestLongestRecordIsAccepted(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1024)
	id := text[:255]
	for _, edit := range []func(*gateway.Record){
		func(r *gateway.Record) { r.ID, r.ChargeID = id, id },
		func(r *gateway.Record) { r.ID, r.ChargeID = "!", "~" }, // the first and the last character of an id
		func(r *gateway.Record) { r.Account, r.Key, r.Reference = text, text, text },
		func(r *gateway.Record) { r.AmountMinor = 1<<63 - 1 },
		func(r *gateway.Record) { r.AmountMinor = 0 },
		func(r *gateway.Record) { r.Created = time.Unix(0, 0).UTC() },
		func(r *gateway.Record) { r.Created = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC) },
		declined(text[:64]),
	} {
		accepted(t, refunded(edit))
	}
}

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

// A text of the PSP's may be longer than what is stored, or no UTF-8. The database would refuse the whole step.
func TestTextsOfEvidenceAreCut(t *testing.T) {
	t.Parallel()
	text, kept := strings.Repeat("x", 1999)+"\xff\xff", `"`+strings.Repeat("x", 1999)+"\uFFFD\""
	r := charged(func(r *gateway.Record) { r.Account, r.Key, r.Reference = text, text, text })
	if raw := string(r.Evidence()); strings.Count(raw, kept) != 3 {
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
