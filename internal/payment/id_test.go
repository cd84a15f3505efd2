package payment

import (
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

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
		p, err := ParseID(ID(id).String())
		if err != nil || p != ID(id) {
			t.Fatalf("%s became %s: %v", ID(id), p, err)
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
		text, ok := strings.CutPrefix(ID(id).String(), "pay_")
		if !ok || len(text) != 26 {
			t.Fatalf("%s", ID(id))
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
	id := ID(uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"))
	if id.String() != "pay_01h455vb4pex5vsknk084sn02q" {
		t.Fatal(id)
	}
}

func TestOrderOfIDsIsTheOrderOfTheirText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := uuids().Draw(t, "a"), uuids().Draw(t, "b")
		if strings.Compare(ID(a).String(), ID(b).String()) != slices.Compare(a[:], b[:]) {
			t.Fatalf("%s and %s", ID(a), ID(b))
		}
	})
}

func TestOnlyOneTextNamesAnID(t *testing.T) {
	t.Parallel()
	good := ID(uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")).String()
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
		id, err := ParseID(s)
		if !errors.Is(err, ErrIDMalformed) {
			t.Errorf("%s: %q is %s, %v", name, s, id, err)
		}
	}
	if _, err := ParseID("pay_7" + strings.Repeat("z", 25)); err != nil {
		t.Errorf("the highest of all: %v", err)
	}
}

// A reference of a record is an id of ours only if it has the form of its kind.
func TestReferenceIsReadByTheKindOfTheRecord(t *testing.T) {
	t.Parallel()
	own := uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	charge, refund := ID(own).String(), RefundID(own).String()
	for name, c := range map[string]struct {
		object    gateway.Object
		reference string
		is        bool
	}{
		"a payment": {gateway.ChargeObject, charge, true}, "a refund": {gateway.RefundObject, refund, true},
		"a payment's id on a refund": {gateway.RefundObject, charge, false},
		"a refund's id on a charge":  {gateway.ChargeObject, refund, false},
		"nothing":                    {gateway.ChargeObject, "", false},
	} {
		id, ours := SubjectOf(c.object, c.reference)
		if ours != c.is || c.is != (id == own) {
			t.Errorf("%s: %s, %v", name, id, ours)
		}
	}
}

// Only what String writes is read: for every text that is taken, and however it came about.
func FuzzParseID(f *testing.F) {
	f.Add("pay_01h455vb4pex5vsknk084sn02q")
	f.Add("re_01h455vb4pex5vsknk084sn02q")
	f.Add("pay_01h455vb4pex5vsknk084sn0\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && id.String() != s {
			t.Errorf("%q reads as %s", s, id)
		}
		if id, err := ParseRefundID(s); err == nil && id.String() != s {
			t.Errorf("%q reads as %s", s, id)
		}
	})
}
