package reconcile

import (
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// Money that has moved is judged before a decline, and otherwise in the PSP's order.
func TestExecutedRecordsAreJudgedFirst(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, r := range executedFirst([]gateway.Record{
		{ID: "a", Status: "declined"}, {ID: "b", Status: "succeeded"}, {ID: "c", Status: "declined"},
		{ID: "d", Status: "succeeded"},
	}) {
		ids = append(ids, r.ID)
	}
	if got := strings.Join(ids, " "); got != "b d a c" {
		t.Errorf("judged in the order %s", got)
	}
}
