package app

import (
	"context"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"
)

const (
	loadInterval = 200 * time.Millisecond
	longWait     = 0.004 // seconds that a goroutine which could run waits for a processor
)

// followLoad keeps the program to one processor as long as that is enough, until ctx ends, unless the environment says
// how many. A program that mostly waits for the network is cheaper so: while a second processor is free, the Go runtime
// wakes a thread for it at each event, to look for more work, and in vain (docs/performance.md). It is called once.
func followLoad(ctx context.Context, getenv func(string) string) {
	if getenv("GOMAXPROCS") != "" {
		return
	}
	runtime.GOMAXPROCS(1)
	defer runtime.SetDefaultGOMAXPROCS()
	ticker := time.NewTicker(loadInterval)
	defer ticker.Stop()
	all := false
	for last := loadNow(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := loadNow()
		needs := now.needsAll(last, all)
		switch {
		case needs && !all:
			runtime.SetDefaultGOMAXPROCS()
		case !needs && all:
			runtime.GOMAXPROCS(1)
		}
		last, all = now, needs
	}
}

// load is what the program has done until a moment.
type load struct {
	at         time.Time
	used       time.Duration // of all processors
	runs, late uint64        // how often a goroutine began to run, and how often after a long wait
}

// needsAll decides whether the program uses all processors from now on. One is not enough when goroutines wait for it.
// All are kept while more than half of one is used: each change stops the program for a moment.
func (l load) needsAll(last load, all bool) bool {
	return 10*(l.late-last.late) > l.runs-last.runs || all && l.used-last.used > l.at.Sub(last.at)/2
}

func loadNow() load {
	l := load{at: time.Now()}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		l.used = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	waits := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	if metrics.Read(waits); waits[0].Value.Kind() == metrics.KindFloat64Histogram {
		h := waits[0].Value.Float64Histogram()
		for i, n := range h.Counts {
			l.runs += n
			if h.Buckets[i] >= longWait {
				l.late += n
			}
		}
	}
	return l
}
