package judge

import (
	"testing"

	"payonce/internal/gateway"
)

// What a PSP writes into a refusal may name our secret or another account. The tenant can read the timeline.
func TestTimelineKeepsNothingOfARefusalButItsStatus(t *testing.T) {
	t.Parallel()
	for evidence, want := range map[string]string{
		`{"status":401,"answer":{"detail":"secret sk_live_1 of account globex"}}`: `{"status":401}`,
		`{"answer":{}}`: "", `{`: "", "": "",
	} {
		if got := string(forTimeline(gateway.Indeterminate{Evidence: []byte(evidence)})); got != want {
			t.Errorf("%s: the timeline has %s", evidence, got)
		}
	}
}
