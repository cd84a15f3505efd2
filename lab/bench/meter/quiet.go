package meter

import (
	"context"
	"fmt"
	"time"
)

const (
	// QuietOthers is how much of a core others may take on a machine that is called quiet.
	QuietOthers = 0.1
	// quietWindow is long enough for the clock's steps of 10 ms on each core to stay well below QuietOthers.
	quietWindow = 500 * time.Millisecond
)

// Quiet waits, at most for limit, until the others have taken less than QuietOthers for half a second, and tells
// whether they have. It looks at least once. What the sources take does not count; call it while they idle all the
// same.
func (m *Meter) Quiet(ctx context.Context, limit time.Duration, sources ...Source) (bool, error) {
	deadline := m.now().Add(limit)
	for {
		slice, err := m.watch(ctx, sources)
		if err != nil {
			return false, fmt.Errorf("wait for a quiet machine: %w", err)
		}
		if slice.OthersCores() < QuietOthers {
			return true, nil
		}
		if !m.now().Add(m.window).Before(deadline) {
			return false, nil
		}
	}
}

func (m *Meter) watch(ctx context.Context, sources []Source) (Slice, error) {
	started, err := m.Begin(sources...)
	if err != nil {
		return Slice{}, err
	}
	timer := time.NewTimer(m.window)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return Slice{}, context.Cause(ctx)
	case <-timer.C:
		return started.End()
	}
}
