package gateway_test

import (
	"strings"
	"testing"
	"time"

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
