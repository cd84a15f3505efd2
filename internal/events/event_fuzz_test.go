package events

import (
	"strings"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/payments"
)

// A payment whose outcome is not known does not show its disputes. Its event shows the one that it is about.
func TestBodyHasTheDisputeThatItIsAbout(t *testing.T) {
	t.Parallel()
	const shown = `{"pspDisputeId":"dp_1","status":"inquiry","amountCents":500,"currency":"USD","amount":"5.00",`
	d := payment.Dispute{PSPID: "dp_1", Status: gateway.Inquiry, Amount: 500, Currency: "USD"}
	for status, times := range map[payment.Status]int{payment.Processing: 1, payment.Succeeded: 2} {
		e := payments.Event{Version: 1, Type: "dispute.inquiry", Dispute: &d,
			Payment: payment.Payment{Status: status, Disputes: []payment.Dispute{d}}}
		body, err := BodyOf(e).JSON()
		if err != nil || strings.Count(string(body), shown) != times || !strings.Contains(string(body), `"dispute":{`) {
			t.Errorf("%s: the dispute is not in it %d times: %s: %v", status, times, body, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Fuzz(func(t *testing.T, id string) {
		name, err := ParseID(id)
		if err == nil && IDOf(name) != id {
			t.Errorf("%q is read as %q", id, IDOf(name))
		}
	})
}
