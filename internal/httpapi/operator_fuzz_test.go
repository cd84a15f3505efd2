package httpapi

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/internal/deadletters"
)

// A decision is taken whole or not at all, means the same when it is written once more, and has a version that a dead
// letter can have.
func FuzzDecisionBody(f *testing.F) {
	f.Add([]byte(`{"action":"executed","reason":"the PSP's support says so","version":1,"pspId":"ch_1"}`))
	f.Add([]byte(`{"action":"dismiss","reason":" ","version":4294967297}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var body decisionRequest
		if bad := decode(raw, &body); bad != nil {
			checkRefusal(t, bad)
			return
		}
		decision, bad := body.toDomain()
		if bad != nil {
			for _, e := range bad.errors {
				if e.Pointer == nil || !slices.Contains([]string{"/action", "/reason", "/version", "/pspId"},
					*e.Pointer) || e.Detail == "" {
					t.Fatalf("refused with %+v", e)
				}
			}
			return
		}
		if v := *body.Version; v != int64(decision.Version) || v < 1 || v > math.MaxInt32 {
			t.Fatalf("version %d is taken for %d", v, decision.Version)
		}
		if decision.Actor != "" || decision.PSPID != "" && decision.Action != deadletters.Executed ||
			strings.TrimSpace(decision.Reason) == "" {
			t.Fatalf("taken: %+v", decision)
		}
		again, err := json.Marshal(body, json.OmitZeroStructFields(true))
		if err != nil {
			t.Fatal(err)
		}
		var second decisionRequest
		if bad := decode(again, &second); bad != nil {
			t.Fatalf("taken, and refused when written once more: %v", bad.at())
		}
		if twice, bad := second.toDomain(); bad != nil || twice != decision {
			t.Fatalf("%+v, and when written once more %+v, %v", decision, twice, bad.at())
		}
	})
}
