package report

import "slices"

// Summary is what is said of some samples.
type Summary struct {
	Count             int
	Median, Low, High float64
}

// Summarize takes samples in any order. Of an even number, the median is halfway between the middle two. Of none,
// false.
func Summarize(samples []float64) (Summary, bool) {
	if len(samples) == 0 {
		return Summary{}, false
	}
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = sorted[middle-1] + (sorted[middle]-sorted[middle-1])/2
	}
	return Summary{Count: len(sorted), Median: median, Low: sorted[0], High: sorted[len(sorted)-1]}, true
}
