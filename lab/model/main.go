// Command model checks the key's state machine with Spin: every order in which owners, retries, the sweeper, lookups,
// webhooks, the scan and a slow PSP can meet, within bounds. `make model` runs it.
//
// There are two models of one generation of a key, in Promela, because there are two kinds of PSP. key.pml is for a
// PSP that executes what it is sent; there, time proves that nothing was executed. object.pml is for a PSP that makes
// an object first and executes it later; there, a cancelled object is the proof, and time does not matter.
// generations.pml has what comes after: a key expires, is deleted, and is used again. refunds.pml has two refunds of
// one payment. All share the claims (claims.pml).
//
// What the models have in common with the code is generated from it. edges.pml has the edges of the key, from the table
// of docs/state_machine.md, which the tests of internal/idempotency also compare with the queries and with what the
// database accepts. judge.pml has what evidence does to a key, from internal/judge. A model moves a
// key by the listed edges only. A design that leaves them fails, and so does a listed edge that no design takes.
//
// The decision of an operator is not generated. The operators of key.pml and generations.pml are written by hand: they
// know whether the PSP has executed the payment, and say "not executed" only after the grace period. So the models do
// not show what judge does with an operator's mistake. The tests of internal/judge show it.
//
// variants.go has the table of variants: each design has to hold, and each weakened variant has to break the claim that
// its guard is there for. A guard whose absence breaks nothing would be a guard that the model doesn't see.
//
// It refuses to know the application: no code of it runs here. The guards are written twice, in the WHERE of a query
// and as a macro here, so a mistake in the SQL is not found here. Needs spin and gcc, and says so when they are not
// there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"payonce/internal/cli"
)

const usage = `Usage: model [VARIANT …]
Checks the models of the key with Spin: all variants, or those named. Needs spin and gcc.
`

func main() {
	cli.Main("model", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, usage)
		return nil
	}
	chosen, err := choose(variants(), args)
	if err != nil {
		return err
	}
	if err := toolsAreThere(); err != nil {
		return err
	}
	return checkAll(ctx, chosen, stdout)
}

// toolsAreThere names what is missing, and how to get it.
func toolsAreThere() error {
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed (on Debian: apt-get install spin gcc)", tool)
		}
	}
	return nil
}

// checkAll goes on behind a verdict that is not the expected one: the others tell what it may come from.
func checkAll(ctx context.Context, vs []variant, stdout io.Writer) error {
	var surprises int
	var results []result
	for _, v := range vs {
		r, err := check(ctx, promela, v)
		if err != nil {
			return fmt.Errorf("check %s: %w", v.name, err)
		}
		if !r.asExpected() {
			surprises++
		}
		results = append(results, r)
		fmt.Fprint(stdout, r.line())
	}
	for _, r := range results {
		fmt.Fprint(stdout, r.story())
	}
	listed, err := edgesListed()
	if err != nil {
		return err
	}
	if dead := notTaken(listed, results); len(dead) > 0 {
		return fmt.Errorf("no design that was searched takes these edges of docs/state_machine.md: %s", strings.Join(dead, "; "))
	}
	if surprises > 0 {
		return errors.New("not every verdict is as expected: see !! above")
	}
	return nil
}

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
