package gateway_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

func TestRecordOfWhatWasAskedIsAVerdict(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ got, want gateway.Outcome }{
		"charged": {aCharge().Judge(parsed(t, chargeHeld)), gateway.Succeeded{ID: "ch_1"}},
		"refused": {aCharge().Judge(parsed(t, chargeRefused)),
			gateway.Declined{ID: "ch_2", Code: "insufficient_funds"}},
		"refunded": {aRefund().Judge(parsed(t, refundHeld)), gateway.Succeeded{ID: "rf_1"}},
		"refund refused": {
			aRefund().Judge(parsed(t, replace(refundHeld, `"succeeded"`,
				`"declined","declineCode":"refund_exceeds_charge"`))),
			gateway.Declined{ID: "rf_1", Code: "refund_exceeds_charge"},
		},
	} {
		if diff := cmp.Diff(row.want, row.got); diff != "" {
			t.Errorf("%s: outcome differs (-want +got):\n%s", name, diff)
		}
	}
}

// The same comparison as that of a live answer, also for what was declined.
func TestRecordAboutSomethingElseIsAContradiction(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ member, from, to string }{
		"another account":  {"account", `canary-account`, `globex`},
		"another key":      {"key", `"canary-key-0123456789"`, `"canary-key-0123456789.g2"`},
		"no key":           {"key", `"idempotencyKey":"canary-key-0123456789",`, ``},
		"no reference":     {"reference", `"reference":"re_canary",`, ``},
		"U+0000 in it":     {"reference", `re_canary`, `re_canary\u0000`},
		"another charge":   {"charge", `"ch_1"`, `"ch_2"`},
		"a smaller amount": {"amount", `500`, `499`},
		"no money at all":  {"amount", `500`, `0`},
		"another currency": {"currency", `USD`, `KRW`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := replace(refundHeld, row.from, row.to)
			for _, raw := range []string{raw, replace(raw, `"succeeded"`, `"declined","declineCode":"x"`)} {
				r := parsed(t, raw)
				evidence := contradiction(t, aRefund().Judge(r), "record has another "+row.member)
				if diff := cmp.Diff(r, parsed(t, string(evidence))); diff != "" {
					t.Fatalf("evidence differs (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestRecordOfTheOtherObjectIsAContradiction(t *testing.T) {
	t.Parallel()
	r := parsed(t, chargeHeld)
	r.Object = gateway.RefundObject
	contradiction(t, aCharge().Judge(r), "record has another object")
	r = parsed(t, refundHeld)
	r.Object = gateway.ChargeObject
	contradiction(t, aRefund().Judge(r), "record has another object")
}

// Records can be made by hand, and those of a statement have no decline code.
func TestRecordWithoutAVerdictIsIndeterminate(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reason string
		edit   func(*gateway.Record)
	}{
		"no id":                 {"record malformed", func(r *gateway.Record) { r.ID = "" }},
		"id with a space":       {"record malformed", func(r *gateway.Record) { r.ID = "ch 1" }},
		"no status":             {"record without a verdict", func(r *gateway.Record) { r.Status = "" }},
		"pending":               {"record without a verdict", func(r *gateway.Record) { r.Status = "pending" }},
		"declined without code": {"record without a verdict", func(r *gateway.Record) { r.Status = "declined" }},
		"code that is no code": {"record without a verdict",
			func(r *gateway.Record) { r.Status, r.DeclineCode = "declined", "<script>" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := parsed(t, chargeHeld)
			row.edit(&r)
			indeterminate(t, aCharge().Judge(r), row.reason)
		})
	}
}
