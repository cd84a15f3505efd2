package judge

import (
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// What is stored of a refund that others have made, what the PSP says of it then, and who brings it.
func TestRefundElsewhereNeverGoesBack(t *testing.T) {
	t.Parallel()
	const stores, nothing, disagrees = "stores", "nothing", "disagrees"
	for _, c := range []struct {
		known, told, byWebhook, byScan string
	}{
		{"", "pending", stores, stores}, {"", "succeeded", stores, stores}, {"", "declined", stores, stores},
		{"processing", "pending", nothing, nothing}, {"processing", "succeeded", stores, stores},
		{"processing", "declined", stores, stores},
		{"succeeded", "pending", nothing, nothing}, {"succeeded", "succeeded", nothing, nothing},
		{"succeeded", "declined", stores, stores},
		{"reversed", "pending", nothing, nothing}, {"reversed", "succeeded", nothing, disagrees},
		{"reversed", "declined", nothing, nothing},
	} {
		for source, want := range map[Source]string{SourceWebhook: c.byWebhook, SourceScan: c.byScan} {
			s := done(paidAs("psp_1"))
			if c.known != "" {
				s = storedAs(payment.Status(c.known), 500, "")
			}
			r := byOthers(gateway.RefundObject, "psp_1", "re_1", c.told, 500)
			step, got := Judge(s, Record{Source: source, Record: r}), nothing
			switch {
			case step.open != nil:
				got = disagrees
			case step.elsewhere != nil && *step.elsewhere == r:
				got = stores
			}
			if got != want || step.answer != nil && got != stores {
				t.Errorf("%q is known, and %s says %q: %s, want %s", c.known, source, c.told, got, want)
			}
			for _, other := range []Stored{{Status: c.known, AmountMinor: 501, Currency: "USD"},
				{Status: c.known, AmountMinor: 500, Currency: "EUR"},
				{Status: c.known, AmountMinor: 500, Currency: "USD", OfAnother: true}} {
				if s.Stored = other; c.known != "" && Judge(s, Record{Source: source, Record: r}).open == nil {
					t.Errorf("%q is known as %+v, and %s says %q: no case", c.known, other, source, c.told)
				}
			}
		}
	}
}

// Nobody is asked about a record of another account or PSP, or about a refund that has moved nothing.
func TestWhatChangesAPaymentIsOfItsOwnAccount(t *testing.T) {
	t.Parallel()
	r := byOthers(gateway.RefundObject, "psp_1", "re_1", "succeeded", 500)
	r.Account = "globex"
	if step := Judge(done(paidAs("psp_1")), Record{Source: SourceWebhook, Record: r}); step.elsewhere != nil {
		t.Errorf("another account's record is stored: %+v", step)
	}
	r = byOthers(gateway.RefundObject, "psp_1", "re_1", "declined", 500)
	if step := Judge(anUnknown(), Record{Source: SourceWebhook, Record: r}); step.open != nil || step.elsewhere == nil {
		t.Errorf("a refund that came back, of a payment that is unknown: %+v", step)
	}
	known, unmarked := done(paidAs("psp_1")), recordOfOwn("psp_1", "succeeded", 12000)
	known.Shared, unmarked.Key, unmarked.Reference = true, "", ""
	alone := Seen{Tenant: "acme", Account: "acme"}
	for _, s := range []Seen{known, alone} {
		if step := Judge(s, Record{Source: SourceWebhook, Record: unmarked}); step.foreign {
			t.Errorf("it is of another program: %+v", s)
		}
	}
}

// What of a refund of ours counts on its payment besides, with its case.
func TestRefundOfOursCountsOnce(t *testing.T) {
	t.Parallel()
	reversed := payment.Verdict{Status: payment.Reversed, PSPID: "psp_2", Code: "expired_card"}
	otherCharge := refundOfOwn("psp_9", "succeeded")
	otherCharge.ChargeID = "psp_8"
	for name, c := range map[string]struct {
		row    payment.Verdict
		told   gateway.Record
		counts bool
	}{
		"as we know":                    {paidAs("psp_2"), refundOfOwn("psp_2", "succeeded"), false},
		"twice":                         {paidAs("psp_2"), refundOfOwn("psp_9", "succeeded"), true},
		"twice, of another charge":      {paidAs("psp_2"), otherCharge, false},
		"declined, and the same moved":  {refusedAs("psp_2"), refundOfOwn("psp_2", "succeeded"), true},
		"reversed, and the same moved":  {reversed, refundOfOwn("psp_2", "succeeded"), false},
		"reversed, and another moved":   {reversed, refundOfOwn("psp_9", "succeeded"), true},
		"declined, and another decline": {refusedAs("psp_2"), refundOfOwn("psp_9", "declined"), false},
		"declined, and the same":        {refusedAs("psp_2"), refundOfOwn("psp_2", "declined"), false},
	} {
		step := Judge(refundIs(c.row), Record{Source: SourceScan, Record: c.told})
		if (step.elsewhere != nil) != c.counts || step.reversal != nil {
			t.Errorf("%s: %+v", name, step)
		}
	}
	// A refund that is processing has reserved its own share.
	s := refundIs(processing())
	s.Status = idempotency.UnknownStatus
	other := refundOfOwn("psp_2", "succeeded")
	other.AmountMinor++
	if step := Judge(s, Record{Source: SourceWebhook, Record: other}); step.open == nil || step.elsewhere != nil {
		t.Errorf("another amount of a refund that is processing: %+v", step)
	}
}

// The charge of a payment never comes back in this way: a bank that takes it back opens a dispute.
func TestChargeThatIsDeclinedAfterItSucceededIsACase(t *testing.T) {
	t.Parallel()
	r := recordOfOwn("psp_1", "declined", 12000)
	r.DeclineCode = "no_money"
	if step := Judge(done(paidAs("psp_1")), Record{Source: SourceWebhook, Record: r}); step.open == nil ||
		step.reversal != nil {
		t.Errorf("%+v", step)
	}
}
