package gateway_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

func TestRecordOfWhatWasAskedIsAVerdict(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ got, want gateway.Outcome }{
		"charged": {aCharge().Judge(charged()), gateway.Succeeded{ID: "ch_1"}},
		"refused": {aCharge().Judge(charged(declined("insufficient_funds"))),
			gateway.Declined{ID: "ch_1", Code: "insufficient_funds"}},
		"refunded": {aRefund().Judge(refunded()), gateway.Succeeded{ID: "rf_1"}},
		"refund refused": {aRefund().Judge(refunded(declined("refund_exceeds_charge"))),
			gateway.Declined{ID: "rf_1", Code: "refund_exceeds_charge"}},
	} {
		if diff := cmp.Diff(row.want, row.got); diff != "" {
			t.Errorf("%s: outcome differs (-want +got):\n%s", name, diff)
		}
	}
}

// What is not sent to every PSP is not compared: the attempt, the id of a prepared object, and the payment method.
func TestVerdictDoesNotDependOnTheAttempt(t *testing.T) {
	t.Parallel()
	ch := aCharge()
	ch.Attempt, ch.ObjectID, ch.PaymentMethod = 7, "pi_1", "pm_other"
	if o := ch.Judge(charged()); o != (gateway.Succeeded{ID: "ch_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
	r := aRefund()
	r.Attempt, r.Reason = 7, "another"
	if o := r.Judge(refunded()); o != (gateway.Succeeded{ID: "rf_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

// A decline is the verdict on this attempt, unless it is of an object that an earlier attempt has given up. A success
// counts in any case. A PSP that executes with one request has no such objects: each of its declines counts.
func TestDeclineOfAGivenUpObjectIsOfAnotherAttempt(t *testing.T) {
	t.Parallel()
	oneStep, twoSteps, unmade := aCharge(), aCharge(), aCharge()
	twoSteps.TwoSteps, twoSteps.ObjectID, unmade.TwoSteps = true, "ch_2", true
	for name, row := range map[string]struct {
		charge gateway.Charge
		record gateway.Record
		want   bool
	}{
		"a decline of one step":            {oneStep, charged(declined("x")), false},
		"a decline of the earlier object":  {twoSteps, charged(declined("x")), true},
		"a decline before there is an own": {unmade, charged(declined("x")), true},
		"a decline of its own object": {twoSteps, charged(declined("x"), func(r *gateway.Record) { r.ID = "ch_2" }),
			false},
		"a success of the earlier object": {twoSteps, charged(), false},
	} {
		if row.charge.OfAnotherAttempt(row.record) != row.want {
			t.Errorf("%s: of another attempt is %t", name, !row.want)
		}
	}
}

// The same comparison as that of a live answer, also for what was declined.
func TestRecordAboutSomethingElseIsAContradiction(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		member string
		edit   func(*gateway.Record)
	}{
		"another account":       {"account", func(r *gateway.Record) { r.Account = "globex" }},
		"another key":           {"key", func(r *gateway.Record) { r.Key += ".g2" }},
		"no key":                {"key", func(r *gateway.Record) { r.Key = "" }},
		"another reference":     {"reference", func(r *gateway.Record) { r.Reference = "re_other" }},
		"no reference":          {"reference", func(r *gateway.Record) { r.Reference = "" }},
		"U+0000 in it":          {"reference", func(r *gateway.Record) { r.Reference += "\x00" }},
		"another charge":        {"charge", func(r *gateway.Record) { r.ChargeID = "ch_2" }},
		"a larger amount":       {"amount", func(r *gateway.Record) { r.AmountMinor = 501 }},
		"a smaller amount":      {"amount", func(r *gateway.Record) { r.AmountMinor = 499 }},
		"no money at all":       {"amount", func(r *gateway.Record) { r.AmountMinor = 0 }},
		"another currency":      {"currency", func(r *gateway.Record) { r.Currency = "KRW" }},
		"the object of another": {"object", func(r *gateway.Record) { r.Object = gateway.ChargeObject }},
		"all of it (the object comes first)": {"object", func(r *gateway.Record) {
			r.Object, r.Account, r.Key, r.AmountMinor = gateway.ChargeObject, "globex", "", 1
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, edits := range [][]func(*gateway.Record){{row.edit}, {row.edit, declined("x")}} {
				r := accepted(t, refunded(edits...))
				o := aRefund().Judge(r)
				evidence := contradiction(t, o, "record has another "+row.member)
				if diff := cmp.Diff(r, parsed(t, string(evidence))); diff != "" {
					t.Fatalf("evidence differs (-want +got):\n%s", diff)
				}
				if id := o.(gateway.Indeterminate).ID; id != "rf_1" {
					t.Fatalf("the contradiction is of %q", id)
				}
			}
		})
	}
}

func TestRecordOfTheOtherObjectIsAContradiction(t *testing.T) {
	t.Parallel()
	r := charged()
	r.Object = gateway.RefundObject
	contradiction(t, aCharge().Judge(r), "record has another object")
	r = refunded()
	r.Object = gateway.ChargeObject
	contradiction(t, aRefund().Judge(r), "record has another object")
}

// A charge is not made by a refund of another charge.
func TestRecordOfAChargeThatNamesAChargeIsAContradiction(t *testing.T) {
	t.Parallel()
	contradiction(t, aCharge().Judge(charged(func(r *gateway.Record) { r.ChargeID = "ch_0" })),
		"record has another charge")
}

// Records can be made by hand, and those of a statement have no decline code.
func TestRecordWithoutAVerdictIsIndeterminate(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reason string
		edit   func(*gateway.Record)
	}{
		"no id":           {"record malformed", func(r *gateway.Record) { r.ID = "" }},
		"id with a space": {"record malformed", func(r *gateway.Record) { r.ID = "ch 1" }},
		"no status":       {"record without a verdict", func(r *gateway.Record) { r.Status = "" }},
		"pending":         {"record without a verdict", func(r *gateway.Record) { r.Status = "pending" }},
		"pending with a code": {"record without a verdict", func(r *gateway.Record) {
			r.Status, r.DeclineCode = "pending", "insufficient_funds"
		}},
		"declined without code": {"record without a verdict", declined("")},
		"code that is no code":  {"record without a verdict", declined("<script>")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			indeterminate(t, aCharge().Judge(charged(row.edit)), row.reason)
		})
	}
}

func TestOnlyASuccessIsExecuted(t *testing.T) {
	t.Parallel()
	if !charged().Executed() || charged(declined("x")).Executed() || (gateway.Record{}).Executed() {
		t.Fatal("money moves by a success and by nothing else")
	}
}

// Metrics and logs name outcomes and lookups by these labels.
func TestEachOutcomeHasItsOwnLabel(t *testing.T) {
	t.Parallel()
	var got []string
	for _, o := range []gateway.Outcome{gateway.Succeeded{}, gateway.Declined{}, gateway.NotExecuted{},
		gateway.Pending{}, gateway.Indeterminate{}} {
		got = append(got, o.Label())
	}
	for _, l := range []gateway.Lookup{gateway.Found{}, gateway.NotFound{}, gateway.NotFound{Final: true},
		gateway.Waiting{}, gateway.LookupFailed{}} {
		got = append(got, l.Label())
	}
	want := []string{
		"succeeded", "declined", "not_executed", "pending", "indeterminate",
		"lookup_found", "lookup_not_found", "lookup_ended", "lookup_waiting", "lookup_failed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("labels differ (-want +got):\n%s", diff)
	}
}
