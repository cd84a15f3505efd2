package pgbench

import (
	"strings"
	"testing"
)

func TestParameterWithoutAValueIsAnError(t *testing.T) {
	t.Parallel()
	q := Query{Name: "Sum", SQL: "SELECT $1 + $2 + $1", Parameters: []string{"A", "B"}}
	if text, err := q.with(map[string]string{"A": "1", "B": ":b"}); err != nil || text != "SELECT 1 + :b + 1;" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := q.with(map[string]string{"A": "1"}); err == nil || !strings.Contains(err.Error(), "Sum") ||
		!strings.Contains(err.Error(), "B") {
		t.Errorf("%q, %v, want an error that names query and parameter", text, err)
	}
	q.Parameters = q.Parameters[:1]
	if text, err := q.with(map[string]string{"A": "1"}); err == nil || !strings.Contains(err.Error(), "$2") {
		t.Errorf("%q, %v, want an error for a number without a name", text, err)
	}
}

func TestGeneratedQueriesAreFoundWithTheirParameters(t *testing.T) {
	t.Parallel()
	queries, err := Queries("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(append([]string{"idempotency.FindKey", "webhooks.StoreEvents"}, reserving...),
		completing...) {
		q, found := queries[name]
		if !found || len(q.Parameters) < 2 || strings.Contains(q.SQL, "--") || !strings.Contains(q.SQL, "$1") {
			t.Errorf("%s: found %t, %v in %q", name, found, q.Parameters, q.SQL)
		}
	}
	if queries, err := Queries(t.TempDir()); err == nil {
		t.Errorf("%d queries in an empty directory", len(queries))
	}
}

func TestQueryThatIsGoneIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := NewPayment(map[string]Query{}, Sample{}); err == nil || !strings.Contains(err.Error(), reserving[0]) {
		t.Errorf("%v, want an error that names the query", err)
	}
}

func TestReportWithoutAFigureIsAnError(t *testing.T) {
	t.Parallel()
	const report = `number of transactions actually processed: 4210
number of failed transactions: 0 (0.000%)
tps = 2105.125 (without initial connection time)
`
	got, err := read(report)
	if err != nil || got.PerSecond != 2105.125 || got.Transactions != 4210 {
		t.Fatalf("%+v, %v", got, err)
	}
	for line := range strings.Lines(report) {
		if got, err := read(strings.Replace(report, line, "", 1)); err == nil {
			t.Errorf("without %q: %+v", line, got)
		}
	}
	if _, err := read(strings.Replace(report, "failed transactions: 0", "failed transactions: 3", 1)); err == nil {
		t.Error("failed transactions pass for a result")
	}
}
