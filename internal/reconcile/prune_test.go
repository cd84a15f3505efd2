package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// backlog is a walk that has so many rows before it.
func backlog(rows *int64) Walk {
	return func(_ context.Context, limit int32) (int64, error) {
		n := min(*rows, int64(limit))
		*rows -= n
		return n, nil
	}
}

func TestPrunerKeepsItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, perSecond := range []int32{1, 100, 250, 5000, 20_000} {
			const all, longest = 1_000_000, 9500 * time.Millisecond
			long, short := int64(all), int64(0)
			began := time.Now()
			if err := Paced(t.Context(), perSecond, longest, backlog(&long), backlog(&short)); err != nil {
				t.Fatal(err)
			}
			// The first batch does not wait; each after it waits its time.
			batch := min(int64(perSecond), pruneBatch)
			want := batch * (1 + int64(longest)*int64(perSecond)/int64(time.Second)/batch)
			if off := all - long - want; off < -batch || off > batch {
				t.Errorf("at %d per second %d rows are gone, want %d", perSecond, all-long, want)
			}
			if took := time.Since(began); took > longest {
				t.Errorf("at %d per second it took %s", perSecond, took)
			}
		}
	})
}

// Batches that take longer than the pace allows make the run no longer.
func TestSlowPrunerEndsBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		slow := func(_ context.Context, limit int32) (int64, error) {
			<-time.NewTimer(time.Second).C
			return int64(limit), nil
		}
		if err := Paced(t.Context(), 5000, 9*time.Second, slow, slow); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestPrunerEndsWithItsWalks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		none, some := int64(0), int64(pruneBatch)
		calls, began := 0, time.Now()
		counted := func(ctx context.Context, limit int32) (int64, error) {
			calls++
			return backlog(&some)(ctx, limit)
		}
		if err := Paced(t.Context(), 5000, time.Minute, backlog(&none), counted); err != nil || calls != 2 {
			t.Errorf("%d batches, want one full and one empty: %v", calls, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("with nothing more to prune, it took %s", took)
		}
	})
}

func TestPrunerStopsWhenAWalkFailsOrItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		rows := int64(1_000_000)
		if err := Paced(t.Context(), 5000, time.Minute,
			func(context.Context, int32) (int64, error) { return 0, broken }, backlog(&rows)); !errors.Is(
			err, broken) || rows != 1_000_000 {
			t.Errorf("%v, %d rows left", err, rows)
		}
		told := errors.New("told to stop")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(told) })
		if err := Paced(ctx, 5000, time.Minute, backlog(&rows)); !errors.Is(err, told) {
			t.Errorf("told to stop in the middle: %v", err)
		}
	})
}
