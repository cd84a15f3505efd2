package cardnumber

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// Numbers that issuers and PSPs publish for tests, one at least of each range.
var published = []string{
	// Visa
	"4222222222222", "4242424242424242", "4111111111111111", "4012888888881881", "4988438843884305",
	"4000000000000000006",
	// Mastercard
	"5555555555554444", "5105105105105100", "5425233430109903", "2223003122003222", "2222405343248877",
	"2720992593319364",
	"2200000000000004", "2201382000000013", // Mir
	"378282246310005", "371449635398431", "343434343434343", // American Express
	"30569309025904", "3056930009020004", "36227206271667", "38520000023237", // Diners Club
	"3530111333300000", "3566002020360505", // JCB
	// Discover, Hipercard
	"6011111111111117", "6011000990139424", "6445644564456445", "6500000000000002", "6062826786276634",
	"6200000000000005", "6205500000000000004", "8171999927660000", // UnionPay
	"6304000000000000", "6759649826438453", "5018000000000009", "5641820000000005", "6759000000005", // Maestro
}

func TestNumbersThatIssuersPublishAreFound(t *testing.T) {
	t.Parallel()
	for _, number := range published {
		for _, s := range []string{
			number, "card " + number + " please", "order-" + number, number + "-2", "pm_" + number, "pan=" + number +
				";", number + " 12/27",
			inGroups(number, " ", 4), inGroups(number, "-", 4), inGroups(number, ".", 4), "5 " +
				inGroups(number, " ", 4) + " 123",
		} {
			if !In(s) {
				t.Errorf("In(%q) = false, want a find", s)
			}
		}
	}
}

// inGroups writes a number in groups of the sizes, the last for as long as there are digits.
func inGroups(number, separator string, sizes ...int) string {
	s := ""
	for i := 0; number != ""; i++ {
		n := min(sizes[min(i, len(sizes)-1)], len(number))
		if s != "" {
			s += separator
		}
		s, number = s+number[:n], number[n:]
	}
	return s
}

func TestGroupsAreThoseOfCards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number string
		sizes  []int
		found  bool
	}{
		{"4242424242424242", []int{16}, true},
		{"4242424242424242", []int{4}, true},                 // 4-4-4-4
		{"378282246310005", []int{4, 6, 5}, true},            // American Express
		{"30569309025904", []int{4, 6, 4}, true},             // Diners Club
		{"4000000000000000006", []int{4, 4, 4, 4, 3}, true},  // nineteen digits
		{"378282246310005", []int{4}, true},                  // 4-4-4-3, in groups of four like other numbers
		{"4222222222222", []int{4}, true},                    // 4-4-4-1
		{"4242424242424242", []int{8}, false},                //
		{"4242424242424242", []int{2}, false},                //
		{"4242424242424242", []int{6, 4, 6}, false},          //
		{"4242424242424242", []int{4, 4, 8}, false},          //
		{"4000000000000000006", []int{4, 4, 4, 7}, false},    //
		{"4000000000000000006", []int{4, 4, 4, 3, 4}, false}, //
		{"4242424242424242", []int{4, 4, 4, 2, 2}, false},    //
		{"378282246310005", []int{5, 6, 4}, false},           //
		{"30569309025904", []int{4, 5, 5}, false},            //
		{"4242424242424242", []int{3, 13}, false},            // 13 digits behind 3, which are no number of an issuer
		{"6759000000005", []int{4, 4, 5}, false},             //
	} {
		for _, separator := range []string{" ", "-", "."} {
			if s := inGroups(c.number, separator, c.sizes...); In(s) != c.found {
				t.Errorf("In(%q) = %v", s, !c.found)
			}
		}
	}
}

func TestNumberHasTheLengthOfItsIssuers(t *testing.T) {
	t.Parallel()
	for first, lengths := range map[string][]int{
		"4": {13, 16, 19}, "51": {16}, "55": {16}, "2221": {16}, "2720": {16}, "34": {15}, "37": {15},
		"300": {14, 16, 19}, "36": {14, 16, 19},
		"3528": {16, 17, 18, 19}, "3589": {16, 17, 18, 19}, "6011": {16, 17, 18, 19}, "62": {16, 17, 18, 19},
		"65":   {16, 17, 18, 19},
		"5018": {13, 14, 15, 16, 17, 18, 19}, "6759": {13, 14, 15, 16, 17, 18, 19},
		"0": nil, "1": nil, "19": nil, "20": nil, "2199": nil, "2220": nil, "2721": nil, "306": nil, "31": nil,
		"3527": nil, "3590": nil, "61": nil,
		"66": nil, "70": nil, "80": nil, "90": nil,
	} {
		for length := 10; length <= 22; length++ {
			want := false
			for _, l := range lengths {
				want = want || l == length
			}
			if number := filled(first, length); In(number) != want {
				t.Errorf("In(%q), %d digits = %v", number, length, !want)
			}
		}
	}
}

// filled is a number with these first digits that passes Luhn.
func filled(first string, length int) string {
	for len(first) < length-1 {
		first += "7"
	}
	for check := '0'; ; check++ {
		if number := first + string(check); luhn(number) {
			return number
		}
	}
}

func TestOtherDigitsAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "4242424242424241", "424242424242", "42424242424242424242", "order 4242", "2026-11-20 15:42:00",
		"4242 4242 4242", "4242  4242  4242  4242", "+41 44 668 18 00",
		// they go on in letters, as random ids do
		"x4111111111111111", "4111111111111111y", "f4111-1111-1111-1111", "4111-1111-1111-1111a",
		"0001 0000 0000 00000009", "0000000000000000", "1111 1111 1111 1117", // no issuer begins so
	} {
		if In(s) {
			t.Errorf("In(%q) = true, want none", s)
		}
	}
}

// The definition of the package's prose, in regular expressions.
var (
	inPieces   = regexp.MustCompile(`[0-9]+(?:[ .-][0-9]+)*`)
	digits     = regexp.MustCompile(`[0-9]+`)
	cardGroups = regexp.MustCompile(`^[0-9]{13,19}$|^(?:[0-9]{4}[ .-]){3}[0-9]{1,4}$|^(?:[0-9]{4}[ .-]){4}[0-9]{1,3}$|^[0-9]{4}[ .-][0-9]{6}[ .-][0-9]{4,5}$`)
	ofIssuers  = regexp.MustCompile(`^(?:4(?:.{12}|.{15}|.{18})|(?:5[1-5]..|222[1-9]|22[3-9].|2[3-6]..|27[01].|2720|220[0-4]|9792).{12}|3[47].{13}|` +
		`(?:30[0-5].|3095|36..|3[89]..)(?:.{10}|.{12}|.{15})|(?:352[89]|35[3-8].|6[0245]..|8[12]..).{12,15}|(?:50|5[678]|6[37]).{11,17})$`)
	onThe30th = regexp.MustCompile(`^30(?:0[13-9]|1[012])(?:19[7-9].|20..)(?:[01].|2[0-3])[0-5].[0-5].$`)
)

func defined(s string) bool {
	for _, at := range inPieces.FindAllStringIndex(s, -1) {
		groups := digits.FindAllStringIndex(s[at[0]:at[1]], -1)
		for i := range groups {
			for j := i; j < len(groups); j++ {
				first, last := at[0]+groups[i][0], at[0]+groups[j][1]
				number := strings.Join(digits.FindAllString(s[first:last], -1), "")
				if cardGroups.MatchString(s[first:last]) && standsAlone(s, first, last) &&
					luhn(number) && ofIssuers.MatchString(number) && !onThe30th.MatchString(number) {
					return true
				}
			}
		}
	}
	return false
}

// pieces are digits that make up numbers of cards, or nearly.
var pieces = rapid.Custom(func(t *rapid.T) string {
	if rapid.Bool().Draw(t, "random") {
		size := rapid.SampledFrom([]int{1, 3, 4, 4, 4, 5, 6, 7, 8, 13, 16, 20}).Draw(t, "size")
		return rapid.StringOfN(rapid.RuneFrom([]rune("0123456789")), size, size, -1).Draw(t, "digits")
	}
	first := rapid.SampledFrom([]string{
		"4", "51", "55", "56", "2220", "2221", "2720", "2721", "2204", "34", "37", "300", "305", "306", "3095", "36",
		"39", "3527", "3528", "3589",
		"60", "61", "62", "65", "66", "81", "83", "50", "63", "67", "9792", "1", "20", "301120261542",
	}).Draw(t, "first")
	number := filled(first, rapid.IntRange(13, 19).Draw(t, "length"))
	sizes := rapid.SampledFrom([][]int{{19}, {4}, {4, 6, 5}, {4, 6, 4}, {8}, {4, 4, 4, 7}, {3, 4}, {4, 4, 5}}).Draw(t,
		"sizes")
	return inGroups(number, rapid.SampledFrom([]string{" ", "-", "."}).Draw(t, "in it"), sizes...)
})

func TestFindsAreThoseOfTheDefinition(t *testing.T) {
	t.Parallel()
	separators := rapid.SampledFrom([]string{"-", "-", "-", "-", "-", " ", ".", "", "--", "a", "/", "_"})
	drawn, finds := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var s strings.Builder
		s.WriteString(rapid.SampledFrom([]string{"", "", "x", "\u00e9", "-"}).Draw(t, "before"))
		for _, g := range rapid.SliceOfN(pieces, 1, 4).Draw(t, "pieces") {
			s.WriteString(g + separators.Draw(t, "separator"))
		}
		want := defined(s.String())
		drawn++
		if In(s.String()) != want {
			t.Fatalf("In(%q) = %t", s.String(), !want)
		}
		if want {
			finds++
		}
	})
	if drawn >= 100 && finds == 0 { // in a short run, none may be drawn
		t.Fatal("no card number was drawn")
	}
}

func FuzzIn(f *testing.F) {
	for _, s := range []string{"4242-4242-4242-4242", "3782 822463 10005", "x4111111111111111y",
		"6304 0000 0000 0000 000", "1 4111.1111.1111.1111a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if want := defined(s); In(s) != want {
			t.Fatalf("In(%q) = %t", s, !want)
		}
	})
}

// Good keys are UUIDs and timestamps. Of those, at most one in a million may be refused: by the rule of three, none of
// three million says so with 95 % certainty. The numbers are the same in each run, so the tests cannot fail by chance.
const tries = 3_000_000

func source() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{}) }

func TestFewerThanOneInAMillionUUIDsIsTakenForACard(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a million UUIDs")
	}
	t.Parallel()
	random := source()
	for range tries / 6 {
		v4, err4 := uuid.NewRandomFromReader(random)
		v7, err7 := uuid.NewV7FromReader(random)
		if err4 != nil || err7 != nil {
			t.Fatal(err4, err7)
		}
		for _, id := range []string{v4.String(), v7.String()} {
			hex := strings.ReplaceAll(id, "-", "")
			for _, s := range []string{id, hex, "order-" + hex} {
				if In(s) {
					t.Fatalf("In(%q) = true", s)
				}
			}
		}
	}
}

// forms are how programs write a time.
var forms = []func(time.Time) string{
	func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) },
	func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) },
	func(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) },
	func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) },
	func(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) },
	func(t time.Time) string { return t.Format(time.RFC3339Nano) },
	func(t time.Time) string { return t.Format("2006-01-02 15:04:05.000000") },
	func(t time.Time) string { return t.Format("20060102150405") },
	func(t time.Time) string { return strings.Replace(t.Format("20060102150405.000"), ".", "", 1) },
	func(t time.Time) string { return strings.Replace(t.Format("20060102150405.000000"), ".", "", 1) },
	func(t time.Time) string { return t.Format("20060102-150405") },
	func(t time.Time) string { return t.Format("20060102T150405.000Z") },
	func(t time.Time) string { return t.Format("2006-01-02-15-04-05") },
	func(t time.Time) string { return t.Format("02012006150405") },
	func(t time.Time) string { return t.Format("01022006150405") },
	func(t time.Time) string { return t.Format("060102150405") },
	func(t time.Time) string { return strings.Replace(t.Format("060102150405.000"), ".", "", 1) },
	func(t time.Time) string { return t.Format(time.RFC1123) },
}

// The instants are those of 2001 to 2033, when Unix time has ten digits and begins with 1.
func TestFewerThanOneInAMillionTimestampsIsTakenForACard(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a million times")
	}
	t.Parallel()
	random := rand.New(source())
	for n := range tries {
		at := time.Unix(1_000_000_000+random.Int64N(1_000_000_000), random.Int64N(1_000_000_000)).UTC()
		stamp := forms[n%len(forms)](at)
		if n%2 == 0 {
			stamp = "order-" + stamp + "-" + strconv.Itoa(random.IntN(10))
		}
		if In(stamp) {
			t.Fatalf("In(%q) = true", stamp)
		}
	}
}
