package report

// Op says on which side of its value a bar is met.
type Op string

// The sides.
const (
	AtLeast Op = ">="
	AtMost  Op = "<="
)

func (o Op) sign() string {
	if o == AtMost {
		return "≤"
	}
	return "≥"
}

// Verdict is what became of a bar.
type Verdict string

// The verdicts, as the table words them.
const (
	Met    Verdict = "met"
	Missed Verdict = "MISSED"
	NotRun Verdict = "not run"
)

// Bar is a value that a measured one has to reach, or to stay below.
type Bar struct {
	What      string    `json:"what"`
	Op        Op        `json:"op"`
	Value     float64   `json:"value"`
	Unit      string    `json:"unit,omitempty"`      // none for a ratio
	Prototype string    `json:"prototype,omitempty"` // what the prototypes reached, which set the bar
	Samples   []float64 `json:"samples"`             // what is judged; none if it was not run
}

// Of is the bar as judged by these samples, of a Line or of a Ratio.
func (b Bar) Of(samples []float64) Bar {
	b.Samples = samples
	return b
}

// Summary is false if it was not run.
func (b Bar) Summary() (Summary, bool) { return Summarize(b.Samples) }

// Verdict is by the median. What is shown rounded is judged as it is.
func (b Bar) Verdict() Verdict {
	summary, ran := b.Summary()
	switch {
	case !ran:
		return NotRun
	case b.Op == AtLeast && summary.Median >= b.Value, b.Op == AtMost && summary.Median <= b.Value:
		return Met
	default:
		return Missed
	}
}
