package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// report of a run, as the labs write it.
type report struct {
	Lab        string      `json:"lab"`
	Seed       uint64      `json:"seed"`
	PostgreSQL string      `json:"postgresql,omitzero"`
	Violations []violation `json:"violations"`
	Cases      []outcome   `json:"cases"`
}

// violation of an invariant, or of what one case expects.
type violation struct {
	Invariant string `json:"invariant"` // I1 to I10, or "case"
	Where     string `json:"where"`
	Detail    string `json:"detail"`
}

// outcome of a case.
type outcome struct {
	Name    string `json:"name"`
	Says    string `json:"claim"`
	Skipped string `json:"skipped,omitzero"` // why
	Facts   []fact `json:"facts,omitzero"`   // in the order in which they are told

	violations []violation
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
	o.violations = append(o.violations, violation{"case", o.Name, fmt.Sprintf(format, args...)})
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

func (r report) write(path string) error {
	raw, err := json.Marshal(r, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("marshal report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o600)
}
