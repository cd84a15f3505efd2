package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"testing"
)

// A plan is a text that the operator brings back, so it may say anything. A tenant or a kind that PostgreSQL cannot
// hold is no failure of ours.
func TestPlanThatNamesWhatCannotBeIsMalformed(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	for _, filter := range []string{`"tenant":"acme\u0000"`, `"kind":"\u0000"`} {
		plan := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
			`{"action":"dismiss",%s,"openedBefore":"2026-11-20T09:30:00Z","digest":"%s"}`, filter,
			base64.StdEncoding.EncodeToString(make([]byte, 32))))
		c.ask(annKey, "POST", "/operator/dead-letters/run", fmt.Sprintf(`{"plan":%q,"reason":"a reason"}`, plan)).
			expect(t, 400, "invalid_request")
	}
}
