package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/statement"
)

func TestLifeIsInOrderOfTimeAndAddsUp(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 12, minute, 0, 0, time.UTC) }
	refund := func(minute int, status payment.Status, amount payment.AmountMinor, by payment.Origin) payment.Refund {
		return payment.Refund{Amount: amount, Currency: "USD", Status: status, Origin: by,
			PSPRefundID: fmt.Sprint("re_", minute), Created: at(minute), Updated: at(minute + 20)}
	}
	dispute := func(minute int, status gateway.DisputeStatus, amount payment.AmountMinor) payment.Dispute {
		return payment.Dispute{PSPID: fmt.Sprint("du_", minute), Amount: amount, Currency: "USD", Status: status,
			Opened: at(minute), Updated: at(minute + 20)}
	}
	p := payment.Payment{Amount: 12000, Currency: "USD", Status: payment.Succeeded, PSPChargeID: "ch_1",
		Created: at(2), Refunded: 1500, Disputes: []payment.Dispute{
			dispute(5, gateway.Won, 2000), dispute(6, gateway.Inquiry, 9),
			dispute(7, gateway.Lost, 4000), dispute(8, gateway.UnderReview, 30)}}
	refunds := []payment.Refund{refund(12, payment.Processing, 7, payment.OriginAPI),
		refund(11, payment.Declined, 8, payment.OriginAPI), refund(10, payment.Reversed, 700, payment.OriginAPI),
		refund(9, payment.Succeeded, 1000, payment.OriginProvider),
		refund(3, payment.Succeeded, 500, payment.OriginAPI)}
	lines := []statement.BookedLine{{BookedAt: at(1), Type: "charge", Currency: "USD", GrossMinor: "12000",
		FeeMinor: "378", NetMinor: "11622", PayoutID: "po_1"},
		{BookedAt: at(1), Type: "refund", Currency: "USD", GrossMinor: "-500", NetMinor: "-500", PayoutID: "po_1"},
		{BookedAt: at(9), Type: "refund", Currency: "USD", GrossMinor: "-1000", NetMinor: "-1000"}}
	var got []string
	steps := lifeOf(p, refunds, lines)
	for _, s := range steps {
		got = append(got, fmt.Sprintf("%d %s, %s %s: %s", s.At.Minute(), s.What, s.Where, s.Amount, s.KeptIn("USD")))
	}
	want := []string{
		"2 charge, here +120.00 USD: 120.00 USD",
		"1 paid out, at the PSP : 120.00 USD", // dated by a clock that is behind
		"3 refund, here −5.00 USD: 115.00 USD",
		"5 dispute opened, at the PSP −20.00 USD: 95.00 USD",
		"6 inquiry opened, at the PSP : 95.00 USD",
		"7 dispute opened, at the PSP −40.00 USD: 55.00 USD",
		"8 dispute opened, at the PSP −0.30 USD: 54.70 USD",
		"9 refund, at the PSP −10.00 USD: 44.70 USD",
		"10 refund, here −7.00 USD: 37.70 USD",
		"11 refund declined, here : 37.70 USD",
		"12 refund has no outcome yet, here : 37.70 USD",
		"25 dispute won, at the PSP +20.00 USD: 57.70 USD",
		"27 dispute lost, at the PSP : 57.70 USD",
		"30 refund came back, at the PSP +7.00 USD: 64.70 USD",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if end := steps[len(steps)-1].Kept; end != p.Amount-p.Refunded-p.Disputed() {
		t.Errorf("%d is kept at the end, and the payment says %d", end, p.Amount-p.Refunded-p.Disputed())
	}
	if steps[1].ID != "po_1" || steps[1].More != "charge 116.22 USD, refund -5.00 USD" || steps[7].ID != "re_9" {
		t.Errorf("%+v, %+v", steps[1], steps[7])
	}
}

// What others have given back may be more than was paid, and a dispute may be in a currency that nobody can convert.
func TestLifeTellsWhatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status payment.Status
		of     payment.Dispute
		want   []string
	}{
		"declined": {payment.Declined, payment.Dispute{Currency: "USD", Amount: 5, Status: gateway.Lost},
			[]string{"0.00 USD", "−0.05 USD", "−0.05 USD"}},
		"another currency": {payment.Succeeded,
			payment.Dispute{Currency: "EUR", Amount: 1, Status: gateway.NeedsResponse},
			[]string{"12.00 USD", "0.00 USD"}},
	} {
		p := payment.Payment{Amount: 1200, Currency: "USD", Status: c.status, Disputes: []payment.Dispute{c.of}}
		var got []string
		for _, s := range lifeOf(p, nil, nil) {
			got = append(got, s.KeptIn("USD"))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
