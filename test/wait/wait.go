// Package wait has a test wait for what happens elsewhere.
//
// It owns the limit of such a wait. It refuses to wait for a time to pass: a test that needs that has a reason of its
// own.
package wait

import (
	"sync"
	"testing"
	"time"
)

// patience bounds every wait. Reaching it is a failure, not a measurement.
const patience = time.Minute

// Until asks until something is so.
func Until(t testing.TB, what string, so func() bool) {
	t.Helper()
	over := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// For is the next value of a channel.
func For[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
		panic("unreachable")
	}
}

// AtOnce runs do n times, all at the same time, and waits for them.
func AtOnce(n int, do func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() { <-start; do(i) })
	}
	close(start)
	all.Wait()
}
