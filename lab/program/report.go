package program

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Facts are what was seen or measured, in the order in which it is told.
type Facts []Fact

// Fact is one of them.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Tell adds a fact.
func (f *Facts) Tell(name, format string, args ...any) {
	*f = append(*f, Fact{name, fmt.Sprintf(format, args...)})
}

// Print prints a line for each.
func (f Facts) Print(w io.Writer) {
	for _, fact := range f {
		fmt.Fprintf(w, "  %-34s %s\n", fact.Name, fact.Value)
	}
}

// PrintViolations prints how many there are, and a line for each.
func PrintViolations(w io.Writer, violations []Violation) {
	fmt.Fprintf(w, "\nviolations: %d\n", len(violations))
	for _, v := range violations {
		fmt.Fprintf(w, "  %-5s %s: %s\n", v.Invariant, v.Where, strings.ReplaceAll(v.Detail, "\n", " "))
	}
}

// Keep copies logs and histories to where they outlive the run.
func Keep(to, from string, say func(string)) {
	_ = os.RemoveAll(to)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		say("keep logs: " + err.Error())
		return
	}
	say("history and logs are kept in " + to)
}
