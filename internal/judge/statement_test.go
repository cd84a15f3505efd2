package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// aBreak is a line of a day's statement about our charge of 120 dollars, for which our books have another amount.
func aBreak(kind BreakKind, ours payment.Status) Break {
	b := aLine(kind, ours)
	b.Day = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	b.Moved = b.Day.Add(9 * time.Hour)
	b.Ours.AmountMinor, b.Ours.PSPID = 999, "psp_ours"
	return b
}

// membersOf are the members of an object, each as it is written.
func membersOf(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	members := map[string]string{}
	for name, value := range all {
		text, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		members[name] = string(text)
	}
	return members
}

// An operator reads in a dead letter what the PSP's statement says, and what we know. Only a status break of a movement
// of ours can be judged again, by the record in its dead letter.
func TestDeadLetterOfABreakHasBothSides(t *testing.T) {
	t.Parallel()
	of := func(more map[string]string) map[string]string {
		all := map[string]string{
			"source": `"statement"`, "account": `"acme"`, "day": `"2026-11-20"`, "id": `"psp_1"`, "object": `"charge"`,
			"reference": `"` + payment.ID(ownSubject).String() + `"`, "amountCents": "12000", "currency": `"USD"`,
			"ourPspId": `"psp_ours"`,
		}
		for name, value := range more {
			if all[name] = value; value == "" {
				delete(all, name)
			}
		}
		return all
	}
	here, there := aBreak(BreakMissingHere, ""), aBreak(BreakMissingThere, payment.Succeeded)
	here.Ours, there.Theirs = nil, nil
	for name, c := range map[string]struct {
		seen Seen
		b    Break
		want map[string]string
	}{
		"missing here":  {Seen{}, here, of(map[string]string{"ourPspId": ""})},
		"missing there": {anUnknown(), there, of(map[string]string{"amountCents": "999"})},
		"a duplicate": {done(paidAs("psp_ours")), aBreak(BreakDuplicate, payment.Succeeded),
			of(nil)},
		"status, and not found any more": {Seen{}, aBreak(BreakStatus, payment.Failed), of(nil)},
		"status": {done(refusedAs("psp_9")), aBreak(BreakStatus, payment.Declined), of(map[string]string{
			"assumed": `["idempotencyKey","chargeId"]`,
			"record": `{"account":"acme","amountCents":12000,"createdAt":"2026-11-20T09:00:00Z","currency":"USD",` +
				`"id":"psp_1","idempotencyKey":"order-0000000001","object":"charge","reference":"` +
				payment.ID(ownSubject).String() + `","status":"succeeded"}`,
		})},
	} {
		if diff := cmp.Diff(c.want, membersOf(t, c.b.kept(c.seen))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	odd := aBreak(BreakDuplicate, payment.Succeeded)
	odd.PSPID = "\xff"
	if kept := string(odd.kept(Seen{})); kept != "{}" {
		t.Errorf("of a break that is no text, %q is kept", kept)
	}
}

// What a line means for a movement depends on what our row said when the statement was compared.
func TestLineIsJudgedByWhatOurRowSaid(t *testing.T) {
	t.Parallel()
	none := func(s *Seen) { s.Own = idempotency.Execution{} }
	for name, c := range map[string]struct {
		seen   Seen
		b      Break
		reason string
	}{
		"a decline of what has succeeded": {done(paidAs("psp_1")), aBreak(BreakStatus, payment.Succeeded),
			"the PSP's record contradicts the result that was answered: it says declined"},
		"a decline of what we call declined by now": {done(refusedAs("psp_9")),
			aBreak(BreakStatus, payment.Succeeded), ""},
		"a charge of what was declined": {done(refusedAs("psp_9")), aBreak(BreakStatus, payment.Declined),
			"the PSP's record contradicts the result that was answered: it says succeeded"},
		"a charge of what is not found any more": {keyIs(idempotency.UnknownStatus, processing(), none),
			aBreak(BreakStatus, payment.Failed),
			"the PSP's statement has moved money for a charge that is failed here"},
		"a charge of what is processed": {keyIs(idempotency.UnknownStatus, processing(), none),
			aBreak(BreakStatus, payment.Processing), ""},
		"a decline of what is not found any more": {keyIs(idempotency.UnknownStatus, processing(), none),
			aBreak(BreakStatus, payment.Succeeded), ""},
	} {
		step, reason := judged(c.seen, c.b), ""
		if step.open != nil {
			reason = step.open.Reason
		}
		if reason != c.reason {
			t.Errorf("%s: the reason is %q", name, reason)
		}
	}
}

// What the PSP's statement did not say is not told to the tenant as if it had. A retry by the operator needs it: a
// record without the key, or without the refunded charge, would be another movement's.
func TestOnlyARetryIsToldWhatIsAssumed(t *testing.T) {
	t.Parallel()
	s, b := keyIs(idempotency.FailedRetryableStatus, neverRun()), aBreak(BreakStatus, payment.Failed)
	step := judged(s, b)
	if step.to != idempotency.CompletedStatus ||
		strings.Contains(string(step.note.Evidence), own().PassThroughKey()) {
		t.Errorf("the timeline has %s", step.note.Evidence)
	}
	s.Request, b.Object = gateway.Refund{ChargeID: "psp_charge"}, gateway.RefundObject
	r := b.assumed(s)
	if r.Key != own().PassThroughKey() || r.ChargeID != "psp_charge" || r.Status != "succeeded" {
		t.Errorf("a retry judges %+v", r)
	}
	if r := b.line(); r.Key != "" || r.ChargeID != "" {
		t.Errorf("the timeline has %+v", r)
	}
	b.Ours.Status = string(payment.Succeeded)
	if r := b.assumed(s); r.Status != "declined" {
		t.Errorf("a retry of a decline judges %+v", r)
	}
}
