package payments

import (
	"strings"
	"testing"
)

// An operator compares the evidence with what was asked. Evidence that would not be whole, or no text, is not stored as
// if it was.
func TestDeadLetterHasAllOfItsEvidence(t *testing.T) {
	t.Parallel()
	asked, odd := aPayment(), aPayment()
	odd.Currency = "\xff"
	for name, c := range map[string]struct {
		evidence string
		of       Payment
		want     string // empty: an error
	}{
		"none":                 {"", asked, `{"asked":{"amountCents":12000,"currency":"USD"}}`},
		"some":                 {`{"b":1}`, asked, `{"asked":{"amountCents":12000,"currency":"USD"},"b":1}`},
		"cut off":              {`{"b":1`, asked, ""},
		"asked for in no text": {`{"b":1}`, odd, ""},
	} {
		got, err := withAsked([]byte(c.evidence), &charge{payment: &c.of})
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// The column counts characters. A reason that is too long would keep its dead letter from being opened.
func TestReasonIsCutToItsColumn(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, maxDeadLetterReason: maxDeadLetterReason,
		maxDeadLetterReason + 1: maxDeadLetterReason} {
		if got := clip(strings.Repeat("ä", n)); got != strings.Repeat("ä", want) {
			t.Errorf("of %d characters, %d are left", n, len([]rune(got)))
		}
	}
}
