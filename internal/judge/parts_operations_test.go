package judge

import (
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

func TestEachPartOfWhatIsKnownCounts(t *testing.T) {
	t.Parallel()
	charged := sayRecord(SourceWebhook, "psp_1", "succeeded", 12000)
	twice := sayRecord(SourceWebhook, "psp_2", "succeeded", 12000)
	other, looked := sayRecord(SourceWebhook, "psp_1", "succeeded", 1), sayRecord(SourceLookup, "psp_1", "succeeded", 1)
	elsewhere := recordOfOwn("psp_1", "declined", 12000)
	elsewhere.Account = "globex"
	vouched := paidAs(payment.OperatorPSPID + "42")
	const opens = "dead letter `psp_contradicts_request` per key and record"
	for _, c := range []tableRow{
		// A reply.
		{"a success of an earlier attempt, after a later one has another success",
			"dead letter `duplicate_movement` per record, holds the key",
			earlier(gateway.Succeeded{ID: "psp_2"}), done(paidAs("psp_1"))},
		{"a reply of this attempt, when the key is another payment's",
			"dead letter `late_after_expiry` per record, holds the key",
			mine(yes()), keyIs(idempotency.InProgressStatus, neverRun(), ofAnother("subject"))},
		{"a reply of this attempt, when the key is of another generation",
			"dead letter `late_after_expiry` per record, holds the key",
			mine(yes()), keyIs(idempotency.InProgressStatus, neverRun(), ofAnother("generation"))},
		{"a doubt of an earlier attempt", "nothing", mine(gateway.Indeterminate{Reason: "no answer"}),
			keyIs(idempotency.InProgressStatus, processing(), ofAnother("attempt"))},
		// Where a record comes from.
		{"a decline under another tenant's account", "nothing", Record{Source: SourceWebhook, Record: elsewhere},
			anUnknown()},
		{"a decline that nothing of ours asked for, and that names no account", "nothing",
			Record{Source: SourceWebhook, Record: gateway.Record{ID: "psp_1", Status: "declined"}}, Seen{}},
		{"a decline of an earlier attempt's object", "nothing", sayRecord(SourceWebhook, "psp_2", "declined", 12000),
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"a decline of this attempt's object", "→ `completed`, 402",
			sayRecord(SourceWebhook, "psp_1", "declined", 12000),
			keyIs(idempotency.UnknownStatus, processing(), inTwoSteps)},
		{"a success that another PSP tells", "dead letter `other_account` per record", byAnotherPSP(charged),
			anUnknown()},
		{"a success that the tenant's own PSP tells", "→ `completed`, 201", byAnotherPSP(charged),
			keyIs(idempotency.UnknownStatus, processing(), atStripe)},
		{"a success of a stored record, which names no PSP", "→ `completed`, 201", charged,
			keyIs(idempotency.UnknownStatus, processing(), atStripe)},
		{"a success with marks of ours that we have lost, at a PSP that has charges of other programs, too",
			"dead letter `unknown_movement` per record", charged, Seen{Shared: true}},
		// What a scan leaves to others.
		{"a scan of a key that is in progress", "left alone",
			sayRecord(SourceScan, "psp_1", "succeeded", 12000), anInProgress()},
		{"a scan at the very end of the grace period", "→ `completed`, 201",
			sayRecord(SourceScan, "psp_1", "succeeded", 12000), anUnknown()},
		{"a scan of a payment whose key is in progress for another one",
			"dead letter `late_after_expiry` per record, holds the key",
			sayRecord(SourceScan, "psp_1", "succeeded", 12000),
			keyIs(idempotency.InProgressStatus, neverRun(), ofAnother("subject"))},
		{"a scan of a key that is released within the grace period of its execution", "→ `completed`, 201",
			sayRecord(SourceScan, "psp_1", "succeeded", 12000),
			keyIs(idempotency.FailedRetryableStatus, neverRun(), inGrace)},
		// When a lookup asks again.
		{"a lookup that contradicts", opens + "; asked again after `LOOKUP_RECHECK`", looked, anUnknown()},
		{"a webhook that contradicts", opens, other, anUnknown()},
		{"a lookup that contradicts, when somebody has asked for the next one", opens, looked,
			keyIs(idempotency.UnknownStatus, processing(), isWoken)},
		{"a lookup that contradicts, when the key is executed again", opens, looked, anInProgress()},
		{"a lookup that contradicts, when the key is unknown for another payment",
			"dead letter `late_after_expiry` per record, holds the key", looked,
			keyIs(idempotency.UnknownStatus, neverRun(), ofAnother("subject"))},
		{"a lookup that finds the success", "→ `completed`, 201",
			sayRecord(SourceLookup, "psp_1", "succeeded", 12000), anUnknown()},
		// A final result.
		{"another payment's id, when an operator has vouched for this one",
			"dead letter `contradicts_completed` per record, holds the key", charged, done(vouched, isTaken)},
		{"another payment's id, when this one has another id",
			"dead letter `contradicts_completed` per record, holds the key", twice,
			done(paidAs("psp_1"), isTaken)},
		{"charged, and an open dead letter says so already", "→ `completed`, 201", charged,
			keyIs(idempotency.UnknownStatus, processing(), isCharged)},
		{"declined as answered, when a dead letter says that money moved", "a line in the timeline",
			sayRecord(SourceWebhook, "psp_1", "declined", 12000), done(refusedAs("psp_1"), isCharged)},
		{"declined, and the row of the refused step is final by now", "a line in the timeline",
			sayRecord(SourceWebhook, "psp_1", "declined", 12000), done(refusedAs("psp_1"), isGone)},
		{"a webhook that confirms, when the key is another payment's", "nothing", charged,
			done(paidAs("psp_1"), ofAnother("subject"))},
		// A lookup without a record.
		{"nothing, when the key is unknown for another payment", "nothing", Nothing{},
			keyIs(idempotency.UnknownStatus, neverRun(), ofAnother("subject"))},
		{"waiting, when the key is unknown for another payment", "nothing", Waiting{},
			keyIs(idempotency.UnknownStatus, neverRun(), ofAnother("subject"))},
		{"no answer, when the key is unknown for another payment", "nothing", NoAnswer{},
			keyIs(idempotency.UnknownStatus, neverRun(), ofAnother("subject"))},
		{"waiting, when the key is in progress", "nothing", Waiting{}, anInProgress()},
		{"no answer, when the key is in progress", "nothing", NoAnswer{}, anInProgress()},
		{"waiting, within the grace period, when a dead letter holds the key", "asked again after `LOOKUP_RECHECK`",
			Waiting{}, keyIs(idempotency.UnknownStatus, processing(), inGrace, isHeld)},
	} {
		if got := inWords(c.seen, judged(c.seen, c.e)); got != c.key {
			t.Errorf("%s: %s, want %s", c.evidence, got, c.key)
		}
	}
}
