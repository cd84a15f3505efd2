package load

import (
	"syscall"
	"time"
)

// cpuSeconds is what this process has used so far, user and system.
func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

// cpuAfterWarmUp waits for the end of the warm-up, or for that of the run.
func (r *run) cpuAfterWarmUp(over <-chan struct{}) float64 {
	if wait := r.warm - r.elapsed(); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-over:
		}
	}
	return cpuSeconds()
}
