package main

import (
	"context"
	"fmt"
	"strings"
)

// counterexample replays the trail that pan has left, and keeps what the model says on the way.
func counterexample(ctx context.Context, dir string, v variant) ([]string, error) {
	out, err := command(ctx, dir, "spin", append(defines(v), "-t", "-T", v.model)...)
	if err != nil && out == "" {
		return nil, err
	}
	return stepsIn(out), nil
}

// embeddedC ends spin's warning that it does not run the C of the model. It need not: the C only tells of edges.
const embeddedC = "=warning====\n"

// stepsIn leaves out what spin says itself, and counts ticks that follow each other.
func stepsIn(out string) []string {
	if i := strings.LastIndex(out, embeddedC); i >= 0 {
		out = out[i+len(embeddedC):]
	}
	var steps []string
	ticks := 0
	flush := func() {
		if ticks > 0 {
			steps = append(steps, fmt.Sprintf("clock: %d tick(s)", ticks))
			ticks = 0
		}
	}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "spin:") || strings.HasPrefix(line, "#processes") {
			break
		}
		if line == "clock: a tick" {
			ticks++
			continue
		}
		if strings.HasPrefix(line, "c_code") {
			continue // an edge is taken
		}
		flush()
		if line != "" {
			steps = append(steps, line)
		}
	}
	flush()
	return steps
}

func (r result) line() string {
	mark := "  "
	if !r.asExpected() {
		mark = "!!"
	}
	return fmt.Sprintf("%s %-22s %-52s %-8s expected %-8s %10d states %5.1f s  %s\n",
		mark, r.variant.name, r.variant.says, verdict(r.failed), verdict(
			r.variant.breaks), r.states, r.took.Seconds(), r.failed)
}

// tableHead begins the table of bin/reports/correctness.md.
const tableHead = "| variant | | verdict | states |\n|---|---|---|--:|\n"

// row is one line of that table.
func (r result) row() string {
	v := verdict(r.failed)
	if r.failed != "" {
		v += ": `" + r.failed + "`"
	}
	if !r.asExpected() {
		v = "**not as expected**: " + v
	}
	return fmt.Sprintf("| `%s` | %s | %s | %d |\n", r.variant.name, r.variant.says, v, r.states)
}

func verdict(failed string) string {
	if failed == "" {
		return "holds"
	}
	return "fails"
}

// story is the counterexample, for reading. A shortest one, where a failure was expected.
func (r result) story() string {
	if r.failed == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s (%s) breaks %s:\n", r.variant.name, r.variant.says, r.failed)
	for i, step := range r.steps {
		fmt.Fprintf(&b, "  %2d  %s\n", i+1, step)
	}
	return b.String()
}
