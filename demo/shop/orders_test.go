package shop

import "testing"

func TestStateOfAnOrderIsWhatTheNewestEventSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ answer, payment, want, tone string }{
		{"", "", "not paid yet", "warn"},
		{saidNothing, "", "not paid yet", "warn"},
		{saidPaid, "", "paid", "good"},
		{saidDeclined, "", "declined", "bad"},
		{saidRefused, "", "not paid", "bad"},
		{saidNothing, `{"status":"processing"}`, "not paid yet", "warn"},
		{saidPaid, `{"status":"processing"}`, "paid", "good"}, // the event was written before the answer
		{saidNothing, `{"status":"succeeded","amountCents":5}`, "paid", "good"},
		{saidNothing, `{"status":"declined"}`, "declined", "bad"},
		{saidNothing, `{"status":"failed"}`, "not paid", "bad"},
		{saidPaid, `{"status":"succeeded","amountCents":5,"amountRefundedCents":5}`, "refunded", ""},
		{saidPaid, `{"status":"succeeded","amountCents":5,"amountRefundedCents":1}`, "refunded in part", ""},
		{saidPaid, `{"status":"succeeded","amountCents":5,"disputes":[{"status":"lost"}]}`, "disputed", "bad"},
		{saidNothing, `not JSON`, "not paid yet", "warn"},
	} {
		var payment []byte
		if c.payment != "" {
			payment = []byte(c.payment)
		}
		if got := stateOf(c.answer, payment); got.Word != c.want || got.Tone != c.tone {
			t.Errorf("after the answer %q and the payment %s: %+v, want %s", c.answer, c.payment, got, c.want)
		}
	}
}
