package psp

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// The table of traits in docs/providers.md is that of the clients.
func TestTraitsAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../docs/providers.md", "<!-- traits -->\n", "<!-- /traits -->\n"
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(stored), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatal("docs/providers.md has no place for the table of traits")
	}
	page := before + begin + traitsTable(t) + end + after
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != string(stored) {
		t.Errorf("docs/providers.md has other traits: go test ./test/psp -update writes\n%s", traitsTable(t))
	}
}

// traitsTable has a column for each dialect.
func traitsTable(t *testing.T) string {
	t.Helper()
	rows := []struct {
		trait string
		of    func(gateway.Traits) string
	}{
		{"longest key, in characters", func(tr gateway.Traits) string { return fmt.Sprint(tr.LongestKey) }},
		{"how long a key is remembered", func(tr gateway.Traits) string {
			return fmt.Sprintf("%g h", tr.KeyMemory.Hours())
		}},
		{"proof that a charge was not executed", func(tr gateway.Traits) string { return string(tr.Proof) }},
		{"steps of a charge", func(tr gateway.Traits) string {
			return map[bool]string{true: "2", false: "1"}[tr.TwoSteps]
		}},
		{"its lists begin with", func(tr gateway.Traits) string {
			return map[bool]string{true: "the newest", false: "the oldest"}[tr.NewestFirst]
		}},
		{"may have records of other programs", func(tr gateway.Traits) string { return yes(tr.ForeignRecords) }},
		{"sends events that nobody asked for", func(tr gateway.Traits) string { return yes(tr.IgnoresEvents) }},
		{"currencies with other digits than ISO 4217", exponentWords},
	}
	traits := map[string]gateway.Traits{}
	for _, d := range dialects() {
		traits[d.Name] = setup(t, d).client.Traits()
	}
	names := slices.Sorted(maps.Keys(traits))
	var out strings.Builder
	fmt.Fprintf(&out, "| | %s |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, row := range rows {
		fmt.Fprintf(&out, "| %s |", row.trait)
		for _, name := range names {
			fmt.Fprintf(&out, " %s |", row.of(traits[name]))
		}
		out.WriteString("\n")
	}
	return out.String()
}

func yes(is bool) string { return map[bool]string{true: "yes", false: "no"}[is] }

func exponentWords(tr gateway.Traits) string {
	var words []string
	for _, currency := range slices.Sorted(maps.Keys(tr.Exponents)) {
		words = append(words, fmt.Sprintf("%s: %d", currency, tr.Exponents[currency]))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
