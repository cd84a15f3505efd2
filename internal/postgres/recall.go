package postgres

import (
	"context"
	"time"
)

// MaxRecalls bounds how often the outcome of a commit is asked for whose acknowledgement was lost, and how often a transaction is tried again
// for it.
const MaxRecalls = 3

// recallPause is what lies between two of them.
const recallPause = 100 * time.Millisecond

// PauseBeforeRecall waits a moment, and reports whether there is still time.
func PauseBeforeRecall(ctx context.Context) bool {
	t := time.NewTimer(recallPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
