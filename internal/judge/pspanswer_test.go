package judge

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/payment"
)

// A record counts as one of the movement if it names the movement, or nothing.
func TestRecordIsForeignIfItNamesSomethingElse(t *testing.T) {
	t.Parallel()
	refund := anUnknown()
	refund.Own.Ref.Operation = payment.RefundOperation
	for name, c := range map[string]struct {
		seen      Seen
		object    gateway.Object
		reference string
		want      bool
	}{
		"the payment":       {anUnknown(), gateway.ChargeObject, payment.ID(ownSubject).String(), false},
		"nothing":           {anUnknown(), gateway.ChargeObject, "", false},
		"another payment":   {anUnknown(), gateway.ChargeObject, payment.ID(otherSubject).String(), true},
		"no id of ours":     {anUnknown(), gateway.ChargeObject, "ticket 42", true},
		"the zero id":       {Seen{}, gateway.ChargeObject, "ticket 42", true},
		"a refund's id":     {anUnknown(), gateway.ChargeObject, payment.RefundID(ownSubject).String(), true},
		"the refund":        {refund, gateway.RefundObject, payment.RefundID(ownSubject).String(), false},
		"the refund's twin": {refund, gateway.RefundObject, payment.ID(ownSubject).String(), true},
	} {
		r := recordOfOwn("psp_1", "succeeded", 12000)
		r.Object, r.Reference = c.object, c.reference
		if got := c.seen.ofAnother(r); got != c.want {
			t.Errorf("%s: foreign %v", name, got)
		}
	}
}

// What the PSP has under a key is compared with what an operator says of it. The words are the names of the records.
func TestPSPsRecordsAreHeldAgainstTheDecision(t *testing.T) {
	t.Parallel()
	foreign := func(r gateway.Record) gateway.Record {
		r.ID, r.Reference = "psp_foreign", payment.ID(otherSubject).String()
		return r
	}
	records := map[string]gateway.Record{
		"paid": recordOfOwn("psp_1", "succeeded", 12000), "twin": recordOfOwn("psp_2", "succeeded", 12000),
		"paid otherwise": recordOfOwn("psp_1", "succeeded", 1), "declined": recordOfOwn("psp_1", "declined", 12000),
		"declined otherwise": recordOfOwn("psp_1", "declined", 1),
		"foreign paid":       foreign(recordOfOwn("", "succeeded", 12000)),
		"foreign declined":   foreign(recordOfOwn("", "declined", 12000)),
	}
	knows := func(id string) func(*Seen) { return func(s *Seen) { s.DeadLetter.PSPID = id } }
	asIs := func(*Seen) {}
	for name, c := range map[string]struct {
		has       []string
		seen      func(*Seen)
		confirmed bool
		known     string // the record by which the PSP knows the movement
		declined  string // the record of a decline of something else than was asked
	}{
		"nothing":                             {nil, asIs, false, "", ""},
		"a success":                           {[]string{"paid"}, asIs, true, "paid", ""},
		"a success that is known by its id":   {[]string{"paid"}, knows("psp_1"), true, "paid", ""},
		"a success, known by another id":      {[]string{"paid"}, knows("psp_2"), false, "paid", ""},
		"two successes":                       {[]string{"paid", "twin"}, asIs, false, "paid", ""},
		"a success of another amount":         {[]string{"paid otherwise"}, asIs, false, "paid otherwise", ""},
		"a decline, and then a success":       {[]string{"declined", "twin"}, asIs, false, "twin", ""},
		"a success, beside another payment's": {[]string{"paid", "foreign paid"}, asIs, false, "paid", ""},
		"a success, beside another's decline": {[]string{"paid", "foreign declined"}, asIs, true, "paid", ""},
		"a decline":                           {[]string{"declined"}, asIs, false, "declined", ""},
		"a decline, beside another's success": {[]string{"declined", "foreign paid"}, asIs, false, "declined", ""},
		"another payment's success alone":     {[]string{"foreign paid"}, asIs, false, "", ""},
		"a decline of another amount": {[]string{"declined otherwise"}, asIs, false, "declined otherwise",
			"declined otherwise"},
		"the same, when money has moved": {[]string{"declined otherwise"}, isCharged, false,
			"declined otherwise", ""},
		"the same, beside another's success": {[]string{"declined otherwise", "foreign paid"}, asIs, false,
			"declined otherwise", ""},
		"the same, and a decline as asked": {[]string{"declined otherwise", "declined"}, asIs, false,
			"declined otherwise", ""},
		"the same, and a success": {[]string{"declined otherwise", "twin"}, asIs, false, "twin", ""},
		"the same, beside another's decline": {[]string{"declined otherwise", "foreign declined"}, asIs, false,
			"declined otherwise", "declined otherwise"},
		"a success of another amount, no more": {[]string{"paid otherwise"}, knows("psp_1"), false, "paid otherwise",
			""},
	} {
		seen := anUnknown()
		c.seen(&seen)
		var found gateway.Found
		for _, each := range c.has {
			found.Records = append(found.Records, records[each])
		}
		d := OperatorDecision{Answer: found}
		if got := seen.confirmed(d); got != c.confirmed {
			t.Errorf("%s: confirmed %v", name, got)
		}
		if r, known := seen.pspKnows(d); known != (c.known != "") || r != records[c.known] {
			t.Errorf("%s: the PSP knows it: %v, as %+v", name, known, r)
		}
		if r, is := seen.declinedOtherwise(d); is != (c.declined != "") || r != records[c.declined] {
			t.Errorf("%s: declined otherwise: %v, as %+v", name, is, r)
		}
		if _, got := seen.executedElsewhere(d); got != slices.Contains(c.has, "foreign paid") {
			t.Errorf("%s: executed elsewhere %v", name, got)
		}
	}
}

// An id that the PSP has for something else is not this movement's.
func TestIDThatRefersElsewhereIsFoundAmongAllRecords(t *testing.T) {
	t.Parallel()
	of := func(id string, subject uuid.UUID) gateway.Record {
		r := recordOfOwn(id, "succeeded", 12000)
		r.Reference = payment.ID(subject).String()
		return r
	}
	d := OperatorDecision{Answer: gateway.Found{Records: []gateway.Record{of("psp_1", ownSubject), of("psp_2",
		otherSubject)}},
		Others: []gateway.Record{of("psp_3", otherSubject)}}
	for id, want := range map[string]string{
		"psp_1": "", "psp_2": payment.ID(otherSubject).String(), "psp_3": payment.ID(otherSubject).String(),
		"psp_4": "",
	} {
		if got, elsewhere := anUnknown().refersElsewhere(d, id); got != want || elsewhere != (want != "") {
			t.Errorf("%s refers to %q, elsewhere %v", id, got, elsewhere)
		}
	}
}
