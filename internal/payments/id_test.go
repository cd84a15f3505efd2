package payments

import (
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
)

func uuids() *rapid.Generator[uuid.UUID] {
	return rapid.Custom(func(t *rapid.T) uuid.UUID {
		return uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
	})
}

func TestIDReadsBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := uuids().Draw(t, "id")
		p, err := ParsePaymentID(PaymentID(id).String())
		if err != nil || p != PaymentID(id) {
			t.Fatalf("%s became %s: %v", PaymentID(id), p, err)
		}
		r, err := ParseRefundID(RefundID(id).String())
		if err != nil || r != RefundID(id) {
			t.Fatalf("%s became %s: %v", RefundID(id), r, err)
		}
	})
}

// Crockford's digits are read here as a number, apart from any base 32 library.
func TestIDIsItsNumberInCrockfordsDigits(t *testing.T) {
	t.Parallel()
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	rapid.Check(t, func(t *rapid.T) {
		id := uuids().Draw(t, "id")
		text, ok := strings.CutPrefix(PaymentID(id).String(), "pay_")
		if !ok || len(text) != 26 {
			t.Fatalf("%s", PaymentID(id))
		}
		number := new(big.Int)
		for _, c := range text {
			number.Add(number.Lsh(number, 5), big.NewInt(int64(strings.IndexRune(digits, c))))
		}
		if number.Cmp(new(big.Int).SetBytes(id[:])) != 0 {
			t.Fatalf("%s is %x, not %x", text, number, id)
		}
	})
}

// The example of the TypeID specification.
func TestIDHasTheTypeIDForm(t *testing.T) {
	t.Parallel()
	id := PaymentID(uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"))
	if id.String() != "pay_01h455vb4pex5vsknk084sn02q" {
		t.Fatal(id)
	}
}

func TestOrderOfIDsIsTheOrderOfTheirText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := uuids().Draw(t, "a"), uuids().Draw(t, "b")
		if strings.Compare(PaymentID(a).String(), PaymentID(b).String()) != slices.Compare(a[:], b[:]) {
			t.Fatalf("%s and %s", PaymentID(a), PaymentID(b))
		}
	})
}

func TestOnlyOneTextNamesAnID(t *testing.T) {
	t.Parallel()
	good := PaymentID(uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")).String()
	digits := strings.TrimPrefix(good, "pay_")
	for name, s := range map[string]string{
		"nothing":                 "",
		"prefix alone":            "pay_",
		"no prefix":               digits,
		"another kind":            "re_" + digits,
		"prefix in upper case":    "PAY_" + digits,
		"digits in upper case":    "pay_" + strings.ToUpper(digits),
		"one digit in upper case": strings.Replace(good, "h", "H", 1),
		"25 digits":               good[:len(good)-1],
		"27 digits":               good + "0",
		"space behind":            good + " ",
		"space inside":            good[:len(good)-1] + " ",
		"not a digit: i":          good[:len(good)-1] + "i",
		"not a digit: l":          good[:len(good)-1] + "l",
		"not a digit: o":          good[:len(good)-1] + "o",
		"not a digit: u":          good[:len(good)-1] + "u",
		"not a digit: -":          good[:len(good)-1] + "-",
		"padding":                 good[:len(good)-1] + "=",
		"not ASCII":               good[:len(good)-2] + "\u00e9",
		"a UUID":                  "pay_01890a5d-ac96-774b-bcce-b302099a8057",
		"129 bits":                "pay_8" + digits[1:],
		"130 bits":                "pay_z" + digits[1:],
		"all digits the highest":  "pay_" + strings.Repeat("z", 26),
		"a newline for a digit":   good[:len(good)-1] + "\n",
		"newlines inside":         "pay_" + digits[:20] + "\r\n\r\n\r\n",
		"newlines in front":       "pay_" + "\n\n" + digits[:24],
		"nothing but newlines":    "pay_" + strings.Repeat("\n", 26),
	} {
		id, err := ParsePaymentID(s)
		if !errors.Is(err, ErrIDMalformed) {
			t.Errorf("%s: %q is %s, %v", name, s, id, err)
		}
	}
	if _, err := ParsePaymentID("pay_7" + strings.Repeat("z", 25)); err != nil {
		t.Errorf("the highest of all: %v", err)
	}
}

// Only what String writes is read: for every text that is taken, and however it came about.
func FuzzParseID(f *testing.F) {
	f.Add("pay_01h455vb4pex5vsknk084sn02q")
	f.Add("re_01h455vb4pex5vsknk084sn02q")
	f.Add("pay_01h455vb4pex5vsknk084sn0\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParsePaymentID(s); err == nil && id.String() != s {
			t.Errorf("%q reads as %s", s, id)
		}
		if id, err := ParseRefundID(s); err == nil && id.String() != s {
			t.Errorf("%q reads as %s", s, id)
		}
	})
}

// A PSP may count its charges and its refunds apart, so a charge and a refund can have the same id. They are two
// records, and each needs its own dead letter.
func TestChargeAndRefundWithOneIDAreTwoFindings(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	charge := s.charging("order-0000000001").record
	charge.ID, charge.Reference, charge.Key = "1001", "", ""
	refund := s.refunding("refund-000000001", p, 100).record
	refund.ID, refund.Reference, refund.Key = "1001", "", ""
	for _, r := range []gateway.Record{charge, refund} {
		if found := is[DeadLettered](t, s.evidenceBy(SourceScan, r)); !found.New {
			t.Errorf("the %s has no dead letter of its own", r.Object)
		}
	}
	for _, r := range []gateway.Record{charge, refund} {
		if found := is[DeadLettered](t, s.evidenceBy(SourceWebhook, r)); found.New {
			t.Errorf("the %s has two", r.Object)
		}
	}
}

// Ids with this prefix are our own: any id of the PSP's takes the place of such an id. If the PSP gave one, a second
// charge of the same payment would pass for the id that was missing.
func TestPSPCannotGiveAnIDThatIsOurs(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onPost(executes(OperatorPSPID + "1"))
	is[Pending](t, s.create("order-0000000001", order()))

	g := s.charging("order-0000000002")
	if o, is := g.movement.request(g.lease.Execution()).Judge(as(OperatorPSPID+"2", g.record)).(gateway.Succeeded); is {
		t.Errorf("a record is a success as %s", o.ID)
	}
	if _, err := as(OperatorPSPID+"2", g.record).Accept(); err == nil {
		t.Error("a record of the PSP has an id of ours")
	}
	deadLetter := deadletters.DeadLetter{
		About: &deadletters.About{
			Tenant: "acme", Operation: CreateOperation, Key: g.key.Key.String(), Generation: 1,
		},
		Evidence: []byte(`{"record":{"id":"operator:3","status":"succeeded"}}`),
	}
	if id := deadLetterSeen(deadLetter).PSPID; id != "" {
		t.Errorf("a dead letter offers %s", id)
	}
}
