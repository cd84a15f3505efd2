package payments

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/payment"
)

// idsOf names records for a comparison.
func idsOf(records []gateway.Record) []string {
	ids := []string{}
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

func (s *shop) wantUnexplained(o gateway.Object, page []gateway.Record, want ...string) {
	s.t.Helper()
	open, err := s.service.Unexplained(s.t.Context(), native.Name, o, "acme", gateway.Page{Records: page})
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(append([]string{}, want...), idsOf(open.Records)); diff != "" {
		s.t.Errorf("unexplained %ss differ (-want +got):\n%s", o, diff)
	}
}

// A record is explained when our books have it as it is, in each member, and not before. A declined refund is looked at
// in any case: it may count as the doing of others.
func TestRecordIsExplainedOnlyAsItIs(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for o, make := range map[gateway.Object]func(key string) *stage{
		gateway.ChargeObject: s.charging,
		gateway.RefundObject: func(key string) *stage { return s.refunding(key, p, 100) },
	} {
		name := func(what string) string { return key(string(o), what) }
		done, refused := make(name("done")).succeeded(), make(name("refused")).declined()
		refused.record = declinedAs(refused.record, "no_money")
		unexplained := map[gateway.Object][]string{gateway.RefundObject: {refused.record.ID}}[o]
		s.wantUnexplained(o, []gateway.Record{done.record, refused.record, done.record}, unexplained...)

		page, want := []gateway.Record{}, []string{}
		for _, change := range map[string]func(*gateway.Record){
			"id":              func(r *gateway.Record) { r.ID += "-2" },
			"account":         func(r *gateway.Record) { r.Account = "globex" },
			"amount":          func(r *gateway.Record) { r.AmountMinor++ },
			"currency":        func(r *gateway.Record) { r.Currency = "EUR" },
			"status":          func(r *gateway.Record) { r.Status = "declined" },
			"no reference":    func(r *gateway.Record) { r.Reference = "" },
			"other reference": func(r *gateway.Record) { r.Reference = payment.ID(uuid.Must(uuid.NewV7())).String() },
			"of another kind": func(r *gateway.Record) { r.Reference = p.ID.String() + "x" },
		} {
			r := done.record
			change(&r)
			page, want = append(page, r), append(want, r.ID)
		}
		for _, open := range []*stage{
			make(name("in-progress")), make(name("unknown")).lost(), make(name("failed")).failed(),
		} {
			page, want = append(page, open.record), append(want, open.record.ID)
		}
		page = append(page, done.record)
		s.wantUnexplained(o, page, want...)
	}
	s.wantUnexplained(gateway.ChargeObject, nil)
}

// A record that says nothing is not explained by a movement that is not there.
func TestEmptyRecordIsNotExplained(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	nowhere := payment.ID(uuid.Must(uuid.NewV7())).String()
	s.wantUnexplained(gateway.ChargeObject, []gateway.Record{{}, {Reference: nowhere}}, "", "")
}

// In an account that others have, too, a refund that nobody has marked is ours only if its charge is. The others are
// counted.
func TestRefundsOfOthersChargesAreCountedAlone(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	ours := s.charging("order-0000000001").succeeded().record.ID
	page := gateway.Page{Foreign: 1, Records: []gateway.Record{{ID: "a charge"},
		{ID: "of ours", ChargeID: ours}, {ID: "marked", ChargeID: "psp_theirs", Key: "a key"},
		{ID: "of theirs", ChargeID: "psp_theirs"}}}
	over, end := context.WithCancel(t.Context())
	end()
	for shared, want := range map[bool]gateway.Page{
		false: page, true: {Foreign: 2, Records: page.Records[:3]},
	} {
		s.service.psps = gateway.PSPs{native.Name: pickyPSP{traits: gateway.Traits{ForeignRecords: shared}}}
		got, err := s.service.withoutForeign(t.Context(), native.Name, "acme", page)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("shared: %v: %v (-want +got):\n%s", shared, err, diff)
		}
		got, err = s.service.withoutForeign(over, native.Name, "acme", page)
		if failed := err != nil; failed != shared {
			t.Errorf("without the database: %+v, %v", got, err)
		}
	}
}
