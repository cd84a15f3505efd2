package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report is the file.
type report struct {
	Lab     string   `json:"lab"`
	Seed    uint64   `json:"seed"`
	Results []result `json:"results"`
}

func (r result) verdict() string {
	if len(r.Invariants) == 0 {
		return fmt.Sprintf("NOT CAUGHT, in %.0f s", r.Seconds)
	}
	return fmt.Sprintf("caught by %s: %s, in %.0f s", r.CaughtBy, strings.Join(r.Invariants, " "), r.Seconds)
}

// table prints one line for each bug, and how many were caught.
func table(out io.Writer, results []result) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "planted bug\tcaught by\tinvariants\tthe first violation")
	caught := 0
	for _, r := range results {
		by := r.CaughtBy
		if len(r.Invariants) == 0 {
			by = "NOT CAUGHT"
		} else {
			caught++
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", r.Name, by, strings.Join(r.Invariants, " "), short(r.First))
	}
	fmt.Fprintf(columns, "%d of %d caught\t\t\t\n", caught, len(results))
	return columns.Flush()
}

// short is the beginning of a line.
func short(text string) string {
	const enough = 100
	text, _, _ = strings.Cut(text, "\n")
	if runes := []rune(text); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return text
}
