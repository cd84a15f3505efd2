package main

import (
	"fmt"
	"io"
	"strings"

	"payonce/lab/program"
)

// report of a run, as the labs write it.
type report struct {
	Lab        string              `json:"lab"`
	Seed       uint64              `json:"seed"`
	PostgreSQL string              `json:"postgresql,omitzero"`
	Violations []program.Violation `json:"violations"`
	Cases      []outcome           `json:"cases"`
}

// outcome of a case.
type outcome struct {
	Name    string `json:"name"`
	Says    string `json:"claim"`
	Skipped string `json:"skipped,omitzero"` // why
	Facts   []fact `json:"facts,omitzero"`   // in the order in which they are told

	violations []program.Violation
}

// fact is something that was seen or measured.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (o *outcome) tell(name, format string, args ...any) {
	o.Facts = append(o.Facts, fact{name, fmt.Sprintf(format, args...)})
}

// broken notes that the case did not go as it has to.
func (o *outcome) broken(format string, args ...any) {
	o.violations = append(o.violations, program.Broken("case", o.Name, fmt.Sprintf(format, args...)))
}

func (r report) print(w io.Writer) {
	fmt.Fprintf(w, "failover  seed %d  PostgreSQL %s\n", r.Seed, r.PostgreSQL)
	for _, o := range r.Cases {
		fmt.Fprintf(w, "\n%s: %s\n", o.Name, o.Says)
		if o.Skipped != "" {
			fmt.Fprintf(w, "  skipped: %s\n", o.Skipped)
		}
		for _, f := range o.Facts {
			fmt.Fprintf(w, "  %-34s %s\n", f.Name, f.Value)
		}
	}
	fmt.Fprintf(w, "\nviolations: %d\n", len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(w, "  %-5s %s: %s\n", v.Invariant, v.Where, strings.ReplaceAll(v.Detail, "\n", " "))
	}
}
