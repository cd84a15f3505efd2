package cardnumber

import "testing"

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
