package controls

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDeedsGoThroughTheDoorsOfTheLastRefundAndDispute(t *testing.T) {
	t.Parallel()
	has := func(status string) changes {
		return changes{[]charge{{ID: "re_1"}, {ID: "re_2"}},
			[]charge{{ID: "du_1", Status: "won"}, {ID: "du_2", Status: status}}}
	}
	for name, c := range map[string]struct {
		deed string
		has  changes
		want string
	}{
		"refund":       {"refund", changes{}, `[{/_refunds {"chargeId":"ch_1","amountCents":300}}] <nil>`},
		"fail":         {"fail-refund", has(""), `[{/_refunds/re_2/fail {}}] <nil>`},
		"fail nothing": {"fail-refund", changes{}, `[] nothing has been refunded`},
		"dispute":      {"dispute", changes{}, `[{/_disputes {"chargeId":"ch_1","amountCents":500}}] <nil>`},
		"win":          {"win", has("under_review"), `[{/_disputes/du_2 {"status":"won"}}] <nil>`},
		"win without evidence": {"win", has("needs_response"),
			`[{/_disputes/du_2 {"status":"under_review"}} {/_disputes/du_2 {"status":"won"}}] <nil>`},
		"win nothing": {"win", changes{}, `[] there is no dispute`},
		"lose":        {"lose", has("needs_response"), `[{/_disputes/du_2 {"status":"lost"}}] <nil>`},
		"pay out":     {"pay-out", changes{}, `[{/_payouts {"account":"acme"}}] <nil>`},
	} {
		doors, err := doorsOf(c.deed, "acme", "ch_1", c.has)
		if diff := cmp.Diff(c.want, fmt.Sprint(doors, " ", err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
