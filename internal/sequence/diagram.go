package sequence

import (
	"cmp"
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
	// Lost says that the message did not arrive, or that it was not usable.
	Lost bool
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
