package mockpsp

import (
	"os"
	"strings"
	"testing"
)

// The page says of each fault what it does. So do the tables of tokens in docs/by_hand.md.
func TestEachRandomFaultIsExplained(t *testing.T) {
	t.Parallel()
	page := setup(t, nil).get("/").body
	byHand, err := os.ReadFile("../../docs/by_hand.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := ""
	for line := range strings.Lines(string(byHand)) {
		if strings.HasPrefix(line, "| `pm_") {
			tables += line
		}
	}
	for _, f := range randomFaults() {
		name := f.rateName()
		means := behaviours[f].means
		if shown := "<dt><code>" + name + "</code></dt><dd>" + means + "</dd>"; means == "" ||
			!strings.Contains(page, shown) {
			t.Errorf("the page does not say what %s does", name)
		}
		if !strings.Contains(tables, "`"+string(f)+"`") {
			t.Errorf("docs/by_hand.md does not say what %s does", f)
		}
	}
	if len(behaviours) != len(Tokens()) {
		t.Errorf("%d behaviours of %d tokens", len(behaviours), len(Tokens()))
	}
}
