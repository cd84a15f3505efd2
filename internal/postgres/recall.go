package postgres

import (
	"context"
	"time"
)

// maxRecalls is how often, at most, a commit whose acknowledgement was lost is sent again or read.
const maxRecalls = 3

// recallPause is the pause between two tries.
const recallPause = 100 * time.Millisecond

// Recall is for a commit whose acknowledgement was lost. It calls ask, which may send the transaction again or read
// whether it was committed, until ask returns done, at most three times and with a pause between. It reports whether
// ask was done. If ask gave up waiting (GaveUp), it should return done, because the next try would wait as long. try
// counts from 1.
func Recall(ctx context.Context, ask func(try int) (done bool)) bool {
	for try := 1; ; try++ {
		if ask(try) {
			return true
		}
		if try == maxRecalls {
			return false
		}
		select {
		case <-time.After(recallPause):
		case <-ctx.Done():
			return false
		}
	}
}
