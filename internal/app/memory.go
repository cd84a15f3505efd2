package app

import "runtime/debug"

// gcPercent lets the heap grow to three times what lives. That is a few megabytes: at Go's default of 100 the collector
// runs dozens of times a second under load. More would save a little more CPU, and cost a thousand connections more
// memory than they are worth (docs/performance.md).
const gcPercent = 200

// TuneMemory sets how often the collector runs, unless the environment does.
func TuneMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
