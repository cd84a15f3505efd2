package stripe

import (
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// An intent that says how much it has received has moved money, whatever else it says. It must not release the key: the
// next attempt would charge again. And it must not be told as a decline.
func TestIntentThatHasReceivedMoneyIsNeitherEndedNorDeclined(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"canceled", "requires_payment_method", "requires_confirmation", "requires_action",
		"declined"} {
		odd := replace(intentIs(status), `"amount_received":0`, `"amount_received":12000`)
		s := scripted(t, map[string][]answer{
			confirmLine: {{lost: true}}, readLine: {ok(odd), ok(odd)}, cancelLine: {ok(odd), ok(odd)},
		})
		c := newClient(t, s.URL)
		if o := c.Charge(t.Context(), aCharge()); o.Label() != "indeterminate" {
			t.Errorf("%s: outcome %T %+v", status, o, o)
		}
		if l := c.Lookup(t.Context(), aCharge(), gateway.EndWaiting); l.Label() != "lookup_failed" {
			t.Errorf("%s: lookup %T %+v", status, l, l)
		}
		if lines := strings.Join(s.lines(), ", "); strings.Contains(lines, cancelLine) {
			t.Errorf("%s: sent %s", status, lines)
		}
	}
}

// Without an amount received, the status decides. A member that is there twice could be read in two ways.
func TestIntentWithAMemberThatIsMissingOrThereTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want state
	}{
		"no amount received": {replace(intentIs("canceled"), `"amount_received":0,`, ""), ended},
		"two currencies":     {strings.TrimSuffix(intentIs("canceled"), "}") + `,"currency":"usd"}`, unclear},
	} {
		if f := inspect(aCharge(), 200, []byte(c.body)); f.state != c.want {
			t.Errorf("%s: finding %+v", name, f)
		}
	}
}

// Money has not moved, and the operator reads that in a record. A bank's reason is in it.
func TestEvidenceOfADeclineIsARecord(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{confirmLine: {ok(replace(intentIs("declined"), "12000", "12001"))}})
	evidence := contradicts(t, newClient(t, s.URL).Charge(t.Context(), aCharge()), "answer has another amount")
	if !strings.Contains(evidence, `"declineCode":"insufficient_funds"`) ||
		strings.Contains(evidence, "last_payment_error") {
		t.Errorf("evidence %s", evidence)
	}
}

// The database cannot store a number with an exponent. That money has moved must be kept all the same.
func TestEvidenceOfMovedMoneyIsKeptWithoutTheRest(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{createLine: {ok(replace(intentIs("succeeded"), `{`, `{"rate":1.3e0,`))}})
	ch := aCharge()
	ch.ObjectID = ""
	_, refused := newClient(t, s.URL).Prepare(t.Context(), ch)
	o, _ := refused.(gateway.Indeterminate)
	if !o.Contradiction || !strings.Contains(string(o.Evidence), `"answer":{"id":"pi_1"`) ||
		!strings.Contains(string(o.Evidence), `"status":"succeeded"`) {
		t.Fatalf("refused %T %+v, with %s", refused, refused, o.Evidence)
	}
}
