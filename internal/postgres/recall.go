package postgres

import (
	"context"
	"time"
)

// maxRecalls bounds how often the outcome of a commit is asked for whose acknowledgement was lost, and how often a transaction is tried again
// for it.
const maxRecalls = 3

// recallPause is what lies between two of them.
const recallPause = 100 * time.Millisecond

// Recall is for a commit whose acknowledgement was lost. It calls ask, which may send the transaction again or read what has become of it, until ask is
// done, at most three times and with a pause between, and reports whether it was done. An ask that gave up waiting (GaveUp) should be done: the next
// one would wait as long. try counts from 1.
func Recall(ctx context.Context, ask func(try int) (done bool)) bool {
	for try := 1; ; try++ {
		if ask(try) {
			return true
		}
		if try == maxRecalls || !pauseBeforeRecall(ctx) {
			return false
		}
	}
}

// pauseBeforeRecall waits a moment, and reports whether there is still time.
func pauseBeforeRecall(ctx context.Context) bool {
	t := time.NewTimer(recallPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
