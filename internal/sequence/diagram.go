package sequence

import (
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

// Columns are all participants, from left to right.
func Columns() []Column { return []Column{Client, API, Database, PSP, Reconciler, Operator} }

func (c Column) String() string {
	return [...]string{"client", "API", "database", "PSP", "reconciler", "operator"}[c]
}

// Source says where a step comes from.
type Source string

// The sources. Package sequence says which of them survive a crash.
const (
	FromRow      Source = "row"
	FromTimeline Source = "timeline"
	FromLedger   Source = "ledger"
	FromMemory   Source = "memory"
	Inferred     Source = "inferred"
)

// Step is one arrow. If From and To are the same column, it is a note about that participant.
type Step struct {
	At       time.Time
	From, To Column
	Label    string
	// Short is the label in the drawing, where there is no room for Label. Without it, Label is cut.
	Short  string
	Source Source
	// Lost says that the message did not arrive, or that it was not usable.
	Lost bool
}

// Note reports whether the step is a note and not an arrow.
func (s Step) Note() bool { return s.From == s.To }

// Dashed reports whether nobody has recorded the step.
func (s Step) Dashed() bool { return s.Source == Inferred }

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
	// Last is the last participant that is drawn. Without it, all are.
	Last Column
}

func (d Diagram) columns() []Column {
	if d.Last == Client {
		return Columns()
	}
	return Columns()[:d.Last+1]
}

// sort orders the steps by time. Steps of one moment keep the order in which they were added. The PSP has a clock of
// its own, so its records may be some milliseconds off.
func (d *Diagram) sort() {
	slices.SortStableFunc(d.Steps, func(a, b Step) int { return a.At.Compare(b.At) })
}
