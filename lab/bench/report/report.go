// Package report holds the results of a benchmark run and shows them as a table for the terminal.
//
// It owns what is made of samples: medians, spreads, ratios, verdicts. It refuses to know how anything was measured,
// and it reads no clock and no machine: the same figures give the same text.
//
//   - A spread is lowest to highest. With the handful of slices that a run has, a deviation would promise more than is
//     known.
//   - A ratio is taken round by round, of two measurements made next to each other, and only then summarized. A round
//     in which either was dropped has no ratio.
//   - What was not measured is "not run". It is neither met nor missed, and never zero.
package report

import (
	"math"
	"slices"
)

// Section is what was measured for one question.
type Section struct {
	Name    string
	Note    string // a sentence or two, for the reader of the table
	Figures []Figure
}

// Figure is one number that was measured, or one divided by another.
type Figure struct {
	What   string
	Unit   string    // none of a ratio
	Rounds []float64 // a sample each; NaN if it was dropped
	Bar    Bar       // what it has to reach, or to stay below; the zero Bar asks for nothing
}

// Bar is a value with the side of it on which it is met.
type Bar struct {
	side  string
	value float64
}

// AtLeast is met by this value and by greater ones.
func AtLeast(value float64) Bar { return Bar{"≥", value} }

// AtMost is met by this value and by smaller ones.
func AtMost(value float64) Bar { return Bar{"≤", value} }

// Ratio divides two series of the same rounds.
func Ratio(what string, numerators, denominators []float64, bar Bar) Figure {
	f := Figure{What: what, Bar: bar, Rounds: make([]float64, len(numerators))}
	for i := range numerators {
		f.Rounds[i] = numerators[i] / denominators[i]
	}
	return f
}

// Summary is what is said of samples.
type Summary struct {
	Kept              int
	Median, Low, High float64
}

// Summary leaves out what was dropped. Of an even number, the median is halfway between the middle two.
func (f Figure) Summary() Summary {
	kept := slices.DeleteFunc(slices.Clone(f.Rounds), func(sample float64) bool {
		return math.IsNaN(sample) || math.IsInf(sample, 0)
	})
	if len(kept) == 0 {
		return Summary{}
	}
	slices.Sort(kept)
	n := len(kept)
	return Summary{Kept: n, Median: (kept[(n-1)/2] + kept[n/2]) / 2, Low: kept[0], High: kept[n-1]}
}

// Verdict is by the median. What is shown rounded is judged as it is.
func (f Figure) Verdict() string {
	summary := f.Summary()
	switch {
	case f.Bar == Bar{}:
		return ""
	case summary.Kept == 0:
		return "not run"
	case f.Bar.side == "≥" && summary.Median >= f.Bar.value, f.Bar.side == "≤" && summary.Median <= f.Bar.value:
		return "met"
	}
	return "MISSED"
}
