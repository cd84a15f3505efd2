package app

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// All processors are used when goroutines wait for one, and until less than half of one is used.
func TestLoadDecidesBetweenOneProcessorAndAll(t *testing.T) {
	t.Parallel()
	all, last := false, load{at: time.Now(), used: time.Minute, runs: 1000, late: 10}
	for _, c := range []struct {
		share      time.Duration // of a processor, in percent
		runs, late uint64
		all        bool
	}{{0, 0, 0, false}, {99, 100, 10, false}, {20, 100, 11, true}, {51, 100, 0, true}, {49, 100, 10, false},
		{20, 1, 1, true}, {0, 0, 0, false}} {
		now := load{last.at.Add(time.Second), last.used + c.share*10*time.Millisecond, last.runs + c.runs,
			last.late + c.late}
		if all = now.needsAll(last, all); all != c.all {
			t.Errorf("%d %%, %d of %d late: all %t", c.share, c.late, c.runs, all)
		}
		last = now
	}
}

// The kernel counts the program's time, and the runtime its waits: far more goroutines work than there are processors.
func TestLoadGrowsWithWork(t *testing.T) {
	t.Parallel()
	before := loadNow()
	for now := before; now.used == before.used || now.runs == before.runs || now.late == before.late; now = loadNow() {
		var all sync.WaitGroup
		for range 4 * runtime.NumCPU() {
			all.Go(func() {
				for begun := time.Now(); time.Since(begun) < 5*time.Millisecond; {
				}
			})
		}
		all.Wait()
	}
}
