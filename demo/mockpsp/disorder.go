package mockpsp

import "strings"

// A disorder is what goes wrong on a webhook's way.
const (
	disorderDuplicate = "duplicate" // sent twice, at about the same time
	disorderReorder   = "reorder"   // held back until a later one has been sent
	disorderDelay     = "delay"     // sent after a further pause
	disorderDrop      = "drop"      // never sent
	disorderForge     = "forge"     // a forgery of it is sent before it
	disorderStale     = "stale"     // signed ten minutes ago; by hand only
)

// disorderNames are those that can be drawn, each independently of the others, in the order in which they are.
func disorderNames() []string {
	return []string{disorderDuplicate, disorderReorder, disorderDelay, disorderDrop, disorderForge}
}

// ofTry names the disorders that the genuine try shows; copies and forgeries are tries of their own.
func ofTry(drawn map[string]bool) string {
	var names []string
	for _, candidate := range []string{disorderReorder, disorderDelay} {
		if drawn[candidate] {
			names = append(names, candidate)
		}
	}
	return strings.Join(names, ",")
}
