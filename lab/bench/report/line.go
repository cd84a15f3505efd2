package report

import "math"

// Better is the direction in which a number improves.
type Better string

// The directions, as benchstat calls them.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// Line is one measured number.
type Line struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"` // as in payments/s, without blanks; one unit has one direction throughout a report
	Better  Better    `json:"better"`
	Samples []float64 `json:"samples"` // one per slice that was kept
	Dropped int       `json:"dropped"` // slices that were not
}

// Keep adds the sample of a slice.
func (l *Line) Keep(sample float64) { l.Samples = append(l.Samples, sample) }

// Drop counts a slice that was disturbed.
func (l *Line) Drop() { l.Dropped++ }

// Summary is false if no slice was kept.
func (l Line) Summary() (Summary, bool) { return Summarize(l.Samples) }

// Pair is one round: two measurements made next to each other.
type Pair struct {
	Numerator   float64 `json:"numerator"`
	Denominator float64 `json:"denominator"`
}

// Ratio is one number divided by another of the same round.
type Ratio struct {
	Name    string `json:"name"` // as in "replay ÷ the HTTP ceiling"
	Rounds  []Pair `json:"rounds"`
	Dropped int    `json:"dropped"` // rounds of which one side, or both, were dropped
}

// Keep adds a round. One that has no quotient counts as dropped.
func (r *Ratio) Keep(numerator, denominator float64) {
	if quotient := numerator / denominator; math.IsNaN(quotient) || math.IsInf(quotient, 0) {
		r.Drop()
		return
	}
	r.Rounds = append(r.Rounds, Pair{numerator, denominator})
}

// Drop counts a round in which either side was disturbed.
func (r *Ratio) Drop() { r.Dropped++ }

// Samples are the quotients, round by round.
func (r Ratio) Samples() []float64 {
	quotients := make([]float64, len(r.Rounds))
	for i, round := range r.Rounds {
		quotients[i] = round.Numerator / round.Denominator
	}
	return quotients
}

// Summary is false if no round was kept.
func (r Ratio) Summary() (Summary, bool) { return Summarize(r.Samples()) }

// PairUp makes the ratio of two series, which go by rounds: where a slice was dropped, its round holds Dropped. The
// longer one's rounds without a partner, from a run that was broken off, count as dropped.
func PairUp(name string, numerators, denominators []float64) Ratio {
	ratio := Ratio{Name: name}
	paired := min(len(numerators), len(denominators))
	for i := range paired {
		ratio.Keep(numerators[i], denominators[i])
	}
	ratio.Dropped += max(len(numerators), len(denominators)) - paired
	return ratio
}

// Dropped holds the place of a slice that was dropped, in a series that goes by rounds.
func Dropped() float64 { return math.NaN() }
