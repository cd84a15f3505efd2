package app

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbage is how many bytes the heap grows by between two collections. Go's own setting, GOGC, is a percentage of what
// lives. One percentage is too little for a few clients, because a few megabytes live and the collector runs dozens of
// times a second. And it is too much for a thousand connections, because each keeps 20 KiB (docs/performance.md).
const (
	garbage      = 16 << 20
	mostPercent  = 400 // when nearly nothing lives
	leastPercent = 50  // however much lives, so that the collector leaves time for the payments
)

// tuneMemory sets how often the collector runs, unless the environment does.
func tuneMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		afterEachCollection(setPercent)
	}
}

// setPercent lets the heap grow by garbage until the next collection.
func setPercent() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := 100 * garbage / (live[0].Value.Uint64() + 1)
	debug.SetGCPercent(int(min(max(percent, leastPercent), mostPercent)))
}

// afterEachCollection calls f now and after each collection. The collection finds an object that nobody uses, and its
// cleanup makes the next such object.
func afterEachCollection(f func()) {
	f()
	runtime.AddCleanup(new(any), afterEachCollection, f)
}
