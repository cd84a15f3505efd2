package contract_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/client"
	"payonce/internal/problem"
	"payonce/test/contract"
)

// paying are the answers that the document has for POST /payments and, for a wrong address, elsewhere; by status and
// code.
func paying(t *testing.T) map[contract.Row]bool {
	t.Helper()
	answers := map[contract.Row]bool{}
	for _, row := range load(t).Rows() {
		if row.Operation == "POST /payments" || row.Operation == contract.Elsewhere {
			answers[contract.Row{Status: row.Status, Code: row.Code}] = true
		}
	}
	return answers
}

// The caller's table has one line for each code of the catalogue, and for each answer of POST /payments, and no other.
func TestCallersTableHasEachAnswerOnce(t *testing.T) {
	t.Parallel()
	want := map[contract.Row]int{}
	for row := range paying(t) {
		want[row] = 1
	}
	for _, entry := range problem.All() {
		want[contract.Row{Status: entry.Status, Code: string(entry.Code)}] = 1
	}
	got := map[contract.Row]int{}
	for _, row := range client.Table() {
		got[contract.Row{Status: row.Status, Code: row.Code}]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers and how often they are listed (-document and catalogue +client):\n%s", diff)
	}
}

// beforeTheKey are the statuses of the checks that come before the key is looked up (openapi.yaml, "Errors").
var beforeTheKey = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
	http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}

// meaningOf derives what the caller must do from the catalogue and the document alone.
func meaningOf(row client.Row, documented bool) (client.Meaning, bool) {
	entry, isProblem := problem.Lookup(problem.Code(row.Code))
	notCounted := entry.Code == problem.RateLimited || entry.Code == problem.ShuttingDown
	switch {
	case !documented:
		return client.Foreign, false
	case !isProblem && row.Status == http.StatusCreated:
		return client.Paid, false
	case !isProblem:
		return client.Ask, false
	case entry.NewKeySafe:
		return client.Declined, false
	case entry.Retryable:
		return client.Again, notCounted
	case slices.Contains(beforeTheKey, entry.Status):
		return client.Refused, true
	}
	return client.Stuck, false
}

// What the client does agrees with retryable and newKeySafe: it sends the same key again where that is allowed, and it
// ends an intent without a charge only where a new key is safe.
func TestCallersTableAgreesWithTheCatalogue(t *testing.T) {
	t.Parallel()
	documented := paying(t)
	for _, row := range client.Table() {
		meaning, untouched := meaningOf(row, documented[contract.Row{Status: row.Status, Code: row.Code}])
		if row.Meaning != meaning || row.Untouched != untouched {
			t.Errorf("%d %s: the client has %q, untouched %v; the catalogue and the document say %q, %v", row.Status,
				row.Code, row.Meaning, row.Untouched, meaning, untouched)
		}
	}
}
