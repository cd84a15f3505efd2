package gateway_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

func TestEvidenceOfAnAnswerHasItsBodyIfTheDatabaseCanStoreIt(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"code":"x"}}`: `{"status":422,"answer":{"error":{"code":"x"}}}`,
		`null`:                   `{"status":422,"answer":null}`,
		``:                       `{"status":422}`,
		`<html>`:                 `{"status":422}`,
		"\"\xff\"":               `{"status":422}`,
		`"a\u0000b"`:             `{"status":422}`,
		`1e200000`:               `{"status":422}`,
	} {
		if got := string(gateway.AnswerEvidence(422, []byte(body))); got != want {
			t.Errorf("%q is kept as %s, want %s", body, got, want)
		}
	}
}

// Without the bounds, PostgreSQL or the JSON writer refuses the evidence. Then the dead letter could not be written.
func TestStorableJSONIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for body, want := range map[string]bool{
		`{"amount":-12.5}`: true, `{"place":"Essen"}`: true, `1E2`: false, `1e-400`: false,
		strings.Repeat("7", 1000): true, strings.Repeat("7", 1001): false, `"` + strings.Repeat("7", 1001) + `"`: true,
		nested(1000): true, nested(1001): false,
	} {
		if gateway.Storable([]byte(body)) != want {
			t.Errorf("%.20s of %d bytes: storable is %t", body, len(body), !want)
		}
	}
}

// What cannot be stored as JSON is shown as text: its beginning, without what the database does not take.
func TestBeginningIsTextThatTheDatabaseTakes(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"": "", "<html>": "<html>", "a\x00b": "a\uFFFDb", "a\xffb": "a\uFFFDb", "💸": "💸",
		strings.Repeat("x", 2001):       strings.Repeat("x", 2000),
		strings.Repeat("x", 1999) + "💸": strings.Repeat("x", 1999) + "\uFFFD", // cut in the character
	} {
		got := gateway.Beginning([]byte(body))
		if got != want || !utf8.ValidString(got) {
			t.Errorf("the beginning of %.20q is %.20q", body, got)
		}
	}
}

// What is called storable fits into what an operator is shown, however it is nested; and what is not is not kept.
func FuzzEvidence(f *testing.F) {
	for _, body := range []string{`{"id":"ch_1"}`, `"\u0000"`, `"\\u0000"`, `1e999`, `0.1`, `{"a":1,"a":2}`, `"\ud800"`,
		`[[[]]]`, "\xff"} {
		f.Add(422, []byte(body), 0)
	}
	f.Add(422, []byte("[]"), 9999)
	f.Fuzz(func(t *testing.T, status int, body []byte, depth int) {
		depth &= 1<<14 - 1
		body = slices.Concat(bytes.Repeat([]byte("["), depth), body, bytes.Repeat([]byte("]"), depth))
		var kept struct {
			Status *int
			Answer json.RawMessage
		}
		raw := gateway.AnswerEvidence(status, body)
		if err := json.Unmarshal(raw, &kept); err != nil || kept.Status == nil || *kept.Status != status {
			t.Fatalf("evidence %.200q: %v", raw, err)
		}
		if (kept.Answer != nil) != gateway.Storable(body) || bytes.Contains(raw, []byte(`\u0000`)) {
			t.Fatalf("%.200q is kept as %.200q", body, raw)
		}
	})
}

// A scan goes on from here. Beyond what was read, it would pass over movements; before it, it would not get on.
func TestPageReachesAsFarAsItWasRead(t *testing.T) {
	t.Parallel()
	first, last := charged(), charged(func(r *gateway.Record) { r.Created = r.Created.Add(time.Minute) })
	at := last.Created
	for name, c := range map[string]struct {
		page gateway.Page
		want time.Time
	}{
		"an empty page that does not tell":  {gateway.Page{}, time.Time{}},
		"an empty page":                     {gateway.Page{ReadTo: at}, at},
		"records of a page that says none":  {gateway.Page{Records: []gateway.Record{first, last}}, at},
		"records before the end of reading": {gateway.Page{Records: []gateway.Record{first}, ReadTo: at}, at},
		"one record after it":               {gateway.Page{Records: []gateway.Record{last}, ReadTo: first.Created}, at},
	} {
		if got := c.page.Reached(); !got.Equal(c.want) {
			t.Errorf("%s reaches %s, want %s", name, got, c.want)
		}
	}
}
