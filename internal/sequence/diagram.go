package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Column is a participant of the diagram.
type Column int

// The participants, from left to right.
const (
	Client Column = iota
	API
	Database
	PSP
	Reconciler
	Operator
)

func (c Column) String() string {
	return [...]string{"client", "API", "database", "PSP", "reconciler", "operator"}[c]
}

// Step is one arrow. If From and To are the same column, it is a note about that participant.
type Step struct {
	At       time.Time
	From, To Column
	Label    string
	// Short is the label in the drawing, where there is no room for Label. Without it, Label is cut.
	Short string
	// Inferred says that nobody has recorded the step: it follows from the others, and is drawn dashed.
	Inferred bool
	// Lost says that the message has not arrived, as far as is known. Its arrow begins when it was sent, and ends
	// nowhere.
	Lost bool
	// Unusable says that the message has arrived, and that nothing could be learnt from it.
	Unusable bool
}

// Note reports whether the step is a note and not an arrow.
func (s Step) Note() bool { return s.From == s.To }

// Diagram is the life of one key.
type Diagram struct {
	Title string
	Steps []Step
	// Requests is how many requests of clients are drawn.
	Requests int
	// Forgotten says that the key is older than the process that remembers requests. There may have been more of them.
	Forgotten bool
	// Remarks are sentences about the whole diagram, such as what could not be read.
	Remarks []string
	// Columns are the participants that are drawn; nil: all up to the last one of a step. Names are what they are
	// called, where that is not their usual name.
	Columns []Column
	Names   map[Column]string
	// Clock asks for the times of the clock, in place of the times since the first step.
	Clock bool
}

// Begin is the time of the first step, from which the times of the others are counted.
func (d Diagram) Begin() time.Time {
	if len(d.Steps) == 0 {
		return time.Time{}
	}
	return d.Steps[0].At
}

// Time is the time of a step as it is drawn.
func (d Diagram) Time(at time.Time) string {
	if d.Clock {
		return at.UTC().Format("15:04:05.000")
	}
	return elapsed(at.Sub(d.Begin()), time.Millisecond)
}

// heading says what the times are.
func (d Diagram) heading() string {
	if d.Clock {
		return d.Begin().UTC().Format("2006-01-02") + ", times in UTC"
	}
	return "from " + d.Begin().UTC().Format(fullForm) + " on"
}

// fullForm is the date and the time of a step.
const fullForm = "2006-01-02 15:04:05.000 UTC"

// elapsed writes a span as people read it: 5.000 s, 1:05.000, 1:00:05 or 2 d 03:00:05. From an hour on, it has no parts
// of a second. resolution is a millisecond or a second.
func elapsed(span, resolution time.Duration) string {
	const day = 24 * time.Hour
	sign := ""
	if span < 0 {
		sign, span = "-", -span
	}
	span = span.Truncate(resolution)
	seconds := fmt.Sprintf("%d", span%time.Minute/time.Second)
	if resolution < time.Second && span < time.Hour {
		seconds += fmt.Sprintf(".%03d", span%time.Second/time.Millisecond)
	}
	if span < time.Minute {
		return sign + seconds + " s"
	}
	if span%time.Minute < 10*time.Second {
		seconds = "0" + seconds
	}
	minutes := span % time.Hour / time.Minute
	switch {
	case span < time.Hour:
		return fmt.Sprintf("%s%d:%s", sign, minutes, seconds)
	case span < day:
		return fmt.Sprintf("%s%d:%02d:%s", sign, span/time.Hour, minutes, seconds)
	}
	return fmt.Sprintf("%s%d d %02d:%02d:%s", sign, span/day, span%day/time.Hour, minutes, seconds)
}

// columns are the participants up to the last one of a step. The PSP is always drawn: it is what a key protects.
func (d Diagram) columns() []Column {
	if d.Columns != nil {
		return d.Columns
	}
	last := PSP
	for _, s := range d.Steps {
		last = max(last, s.From, s.To)
	}
	return []Column{Client, API, Database, PSP, Reconciler, Operator}[:last+1]
}

// Name is what a participant is called.
func (d Diagram) Name(c Column) string { return cmp.Or(d.Names[c], c.String()) }

// place is the number of a participant, from the left.
func (d Diagram) place(c Column) int { return slices.Index(d.columns(), c) }
