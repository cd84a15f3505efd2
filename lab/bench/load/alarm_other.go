//go:build !linux

package load

import (
	"context"
	"time"
)

// alarm is a timer of the runtime.
type alarm struct{ over <-chan struct{} }

// newAlarm returns one that ctx ends.
func newAlarm(ctx context.Context) (*alarm, error) { return &alarm{over: ctx.Done()}, nil }

// wait reports whether d is over; if not, ctx is.
func (a *alarm) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.over:
		return false
	}
}

func (*alarm) close() {}
