package psp

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

var update = flag.Bool("update", false, "write the generated parts of docs/")

// row is a line of the grid.
type row struct {
	dialect *Dialect
	object  gateway.Object
	fault   Fault
	story   story
}

func (r row) name() string {
	return strings.Join([]string{r.dialect.Name, string(r.object), r.step(), r.fault.Name}, "/")
}

func (r row) step() string {
	if r.fault.Step == "" {
		return "the provider"
	}
	return r.fault.Step
}

// rows are all rows: what the provider does wrong, and what the wire does wrong at each step.
func rows() (all []*row) {
	for _, d := range dialects() {
		for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
			faults, steps := d.Charges, d.ChargeSteps
			if o == gateway.RefundObject {
				faults, steps = d.Refunds, d.RefundSteps
			}
			for _, s := range steps {
				e := d.Entries
				entry := s.Name == e.Prepare || s.Name == e.Charge || s.Name == e.Refund || s.Name == "lookup"
				faults = append(faults, cuts(s, entry)...)
				if s.Late != "" {
					faults = append(faults, lateCuts(s, entry)...)
				}
			}
			for _, f := range faults {
				all = append(all, &row{dialect: d, object: o, fault: f})
			}
		}
		for _, o := range []gateway.Object{listObject, statementObject, eventObject} {
			faults := d.Events
			if o != eventObject {
				faults = readFaults(string(o))
			}
			for _, f := range faults {
				all = append(all, &row{dialect: d, object: o, fault: f})
			}
		}
	}
	return all
}

// TestGrid plays all rows, and compares the outcomes with testdata/grid.golden. With -update, it writes the page.
func TestGrid(t *testing.T) {
	all := rows()
	t.Run("rows", func(t *testing.T) {
		for _, r := range all {
			t.Run(r.name(), func(t *testing.T) {
				t.Parallel()
				if r.fault.Long && testing.Short() {
					t.Skip("it waits until the client gives up")
				}
				r.story = r.play(t)
			})
		}
	})
	if t.Failed() {
		return
	}
	page := gridPage(all)
	if *update && testing.Short() {
		t.Fatal("with -short, not all rows are played; -update needs all of them")
	}
	if *update {
		if err := os.WriteFile(gridPath, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compareGrid(t, page)
}

func (r row) play(t *testing.T) story {
	t.Helper()
	switch r.object {
	case listObject, statementObject:
		return playRead(t, r.dialect, r.object, r.fault)
	case eventObject:
		return playEvent(t, r.dialect, r.fault)
	}
	return play(t, r.dialect, r.object, r.fault)
}

const gridPath = "testdata/grid.golden"

// compareGrid compares line by line. A row that was skipped has no outcome.
func compareGrid(t *testing.T, page string) {
	t.Helper()
	stored, err := os.ReadFile(gridPath)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(page, "\n"), strings.Split(string(stored), "\n")
	if len(got) != len(want) {
		t.Fatalf("the grid has %d lines, and testdata/grid.golden has %d: %s", len(got), len(want), repair)
	}
	for i := range got {
		skipped := strings.Contains(got[i], notPlayed) && testing.Short()
		if got[i] != want[i] && !skipped {
			t.Errorf("testdata/grid.golden:%d\n has %s\nwant %s\n%s", i+1, want[i], got[i], repair)
		}
	}
}

const (
	repair    = "go test ./test/psp -run Grid -update writes it"
	notPlayed = "(not played)"
)

const gridHead = `# The outcome of each fault, for each provider

This page is written by ` + "`go test ./test/psp -run Grid -update`" + `, and held equal by the same test. Each line
is a run against the mock PSP over HTTP. docs/providers.md says how to add a provider.

- **Step** is where the fault strikes: at the provider itself, or on the wire of this step.
- **Answer** is what the dialect says at once. **Lookup** is asked at once, with leave to end what was not begun.
  **Later** is asked when everything late has happened, with leave to end what waits.
- After the answer "not executed", no lookup is asked at once: the next attempt is made immediately, as Payonce does.
  Then everything late happens, and **Later** asks about the first attempt.
- **Events** is what genuine webhooks say of the request.
- **Next attempt** is made if nothing was executed, and a third one after a second.
- **Sent again** is the first attempt once more, at the very end.
- **Ledger** is what has really happened, by the provider's own ledger.

A fault whose name begins with ` + "`pm_`" + ` belongs to that payment method, or to that reason of a refund. The
others strike each time here. The words of the columns:

- **found**: the provider has a record of the request. **not found**: it has none, which proves nothing by itself.
- **ended**: the object is cancelled, or was never made. It is never executed.
- **waiting**: the object waits for the customer, for a bank or for its confirmation.
- **contradiction**: the provider says something else than was asked. An operator gets it.
- **–**: nobody had to ask.
`

// gridPage renders the page.
func gridPage(all []*row) string {
	var out strings.Builder
	out.WriteString(gridHead)
	fmt.Fprintf(&out, "\nThere are %d rows.\n", len(all))
	title := ""
	for _, r := range all {
		if t := fmt.Sprintf("%s: %s", r.dialect.Name, r.object); t != title {
			title = t
			fmt.Fprintf(&out, "\n## %s\n\n| Fault | Step | Answer | Lookup | Later | Events | Next attempt | "+
				"Sent again | Ledger |\n|---|---|---|---|---|---|---|---|---|\n", title)
		}
		s := r.story
		if s == (story{}) {
			s.answer = notPlayed
		}
		cells := []string{r.fault.Name, r.step(), s.answer, s.atOnce, s.after, s.events, s.next, s.again, s.ledger}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	return out.String()
}

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
