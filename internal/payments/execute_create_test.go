package payments

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/problem"
)

// The fingerprint is made of this text, and the payment's row has this metadata. What the client has left out is in
// neither, or the same request would have another fingerprint than before.
func TestCanonicalFormHasWhatTheClientHasSent(t *testing.T) {
	t.Parallel()
	const begins, ends = `{"method":"POST","path":"/payments","request":` +
		`{"amountCents":12000,"currency":"USD","customerId":"cus-1"`, `,"paymentMethod":"pm_ok"`
	for name, c := range map[string]struct {
		reference   string
		description string
		metadata    map[string]string
		want        string // between the others
		last        string
		stored      string
	}{
		"neither":       {},
		"no entries":    {metadata: map[string]string{}},
		"a reference":   {reference: "order-42", last: `,"reference":"order-42"`},
		"a description": {description: "two", want: `,"description":"two"`},
		"one entry":     {metadata: map[string]string{"a": ""}, want: `,"metadata":{"a":""}`, stored: `{"a":""}`},
		"several entries": {metadata: map[string]string{"b": "2", "a": "1"}, want: `,"metadata":{"a":"1","b":"2"}`,
			stored: `{"a":"1","b":"2"}`},
		"both": {description: "two", metadata: map[string]string{"a": "1"},
			want: `,"description":"two","metadata":{"a":"1"}`, stored: `{"a":"1"}`},
	} {
		r := order()
		r.Reference, r.Description, r.Metadata = c.reference, c.description, c.metadata
		want := begins + c.want + ends + c.last + "}}"
		if got, err := idempotency.Canonical("POST", "/payments", r); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
		m, err := newCharge(nil, payment.Merchant{}, r)
		if err != nil || string(m.metadata) != c.stored || (m.metadata == nil) != (c.stored == "") {
			t.Errorf("%s: stored is %q, %v", name, m.metadata, err)
		}
	}
	r := order()
	r.Metadata = map[string]string{"a": "\xff"}
	if m, err := newCharge(nil, payment.Merchant{}, r); err == nil {
		t.Errorf("metadata that is no text is stored as %q", m.metadata)
	}
}

// pickyPSP is a PSP with other traits.
type pickyPSP struct {
	gateway.PSP
	traits gateway.Traits
}

func (p pickyPSP) Traits() gateway.Traits { return p.traits }

// A client is told at once what its merchant's PSP never takes, by the name of the member. Nothing else is refused.
func TestWhatThePSPNeverTakesIsRefusedByName(t *testing.T) {
	t.Parallel()
	asked := gateway.Charge{AmountMinor: 12000, Currency: "USD", PaymentMethod: "pm_ok"}
	for name, c := range map[string]struct {
		refuses func(gateway.Request) *gateway.Unacceptable
		want    []problem.Detail
	}{
		"a PSP that refuses nothing": {},
		"a PSP that takes it":        {refuses: func(gateway.Request) *gateway.Unacceptable { return nil }},
		"a PSP that refuses it": {refuses: func(c gateway.Request) *gateway.Unacceptable {
			if c != asked {
				t.Errorf("asked about %+v", c)
			}
			return &gateway.Unacceptable{Member: gateway.TokenMember, Detail: "of another form"}
		}, want: []problem.Detail{problem.AtPointer("/paymentMethod", "of another form")}},
	} {
		s := New(Config{PSPs: gateway.PSPs{native.Name: pickyPSP{traits: gateway.Traits{Refuses: c.refuses}}}})
		if diff := cmp.Diff(c.want, s.unacceptable(payment.Merchant{PSP: native.Name}, asked)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A payment has the id that the request was given, and is not taken without an id or a fingerprint.
func TestPaymentIsTakenUnderItsIDAndFingerprintOnly(t *testing.T) {
	t.Parallel()
	s := setup(t)
	k := keyed(t, "order-0000000001")
	k.Subject = uuid.Must(uuid.NewV7())
	if _, err := s.service.Create(t.Context(), k, order()); err != nil {
		t.Fatal(err)
	}
	if n := s.count("SELECT count(*) FROM payments WHERE id = $1", k.Subject); n != 1 {
		t.Errorf("%d payments have the given id", n)
	}
	before := s.everything()

	odd := order()
	odd.Description = "\xff"
	answer, err := s.service.Create(t.Context(), keyed(t, "order-0000000002"), odd)
	if err == nil || !strings.HasPrefix(err.Error(), "fingerprint request") {
		t.Errorf("a payment without a fingerprint: %T, %v", answer, err)
	}
	s.service.newID = withoutID(1, s.service.newID)
	if answer, err := s.service.Create(t.Context(), keyed(t, "order-0000000003"), order()); err == nil {
		t.Errorf("a payment without an id is answered %T", answer)
	}
	if s.everything() != before {
		t.Error("one of them was written")
	}
}

// withoutID makes ids, except the n-th.
func withoutID(n int, makeID func() (uuid.UUID, error)) func() (uuid.UUID, error) {
	made := 0
	return func() (uuid.UUID, error) {
		if made++; made == n {
			return noID()
		}
		return makeID()
	}
}
