package stripe

import (
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// The database cannot store a number with an exponent. That money has moved must be kept all the same.
func TestEvidenceOfMovedMoneyIsKeptWithoutTheRest(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{createLine: {ok(replace(intentIs("succeeded"), `{`, `{"rate":1.3e0,`))}})
	ch := aCharge()
	ch.ObjectID = ""
	_, refused := newClient(t, s.URL).Prepare(t.Context(), ch)
	o, _ := refused.(gateway.Indeterminate)
	if !o.Contradiction || !strings.Contains(string(o.Evidence), `"answer":{"id":"pi_1"`) ||
		!strings.Contains(string(o.Evidence), `"status":"succeeded"`) {
		t.Fatalf("refused %T %+v, with %s", refused, refused, o.Evidence)
	}
}
