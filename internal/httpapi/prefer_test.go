package httpapi

import (
	"testing"
	"time"
)

// After the wait, the request may still be executed: config allows the PSP 15 seconds at most.
func TestLongestWaitLeavesTimeForAnExecution(t *testing.T) {
	t.Parallel()
	const longestPSPCall = 15 * time.Second
	if maxWait+longestPSPCall >= WriteTimeout {
		t.Fatalf("a wait of %s and a call of %s are not over before %s", maxWait, longestPSPCall, WriteTimeout)
	}
}
