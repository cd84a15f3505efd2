// Command model checks the key's state machine with Spin: every order in which owners, retries, the sweeper, lookups,
// webhooks, the scan and a slow PSP can meet, within bounds. `make model` runs it.
//
// There are two models, in Promela, because there are two kinds of PSP. key.pml is for a PSP that executes what it is
// sent; there, time proves that nothing was executed. object.pml is for a PSP that makes an object first and executes
// it later; there, a cancelled object is the proof, and time does not matter. Both share the claims (claims.pml).
//
// variants.go has the table of variants: each design has to hold, and each weakened variant has to break the claim that
// its guard is there for. A guard whose absence breaks nothing would be a guard that the model doesn't see.
//
// It refuses to know the application: no code of it runs here, so a mistake in the SQL is not found here. That each
// edge is what the database does is held by the tests of internal/idempotency. Needs spin and gcc, and says so when
// they are not there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"payonce/internal/cli"
)

const usage = `Usage: model [markdown] [VARIANT …]
Checks the models of the key with Spin: all variants, or those named. Needs spin and gcc.
markdown prints the results as a table.
`

func main() {
	cli.Main("model", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, usage)
		return nil
	}
	if len(args) > 0 && (args[0] == "version" || args[0] == "--version") {
		return cli.PrintVersion(stdout, "model")
	}
	asTable := len(args) > 0 && args[0] == "markdown"
	if asTable {
		args = args[1:]
	}
	chosen, err := choose(variants(), args)
	if err != nil {
		return err
	}
	if err := toolsAreThere(); err != nil {
		return err
	}
	return checkAll(ctx, chosen, asTable, stdout)
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
func checkAll(ctx context.Context, vs []variant, asTable bool, stdout io.Writer) error {
	var surprises int
	var results []result
	if asTable {
		fmt.Fprint(stdout, tableHead)
	}
	for _, v := range vs {
		r, err := check(ctx, v)
		if err != nil {
			return fmt.Errorf("check %s: %w", v.name, err)
		}
		if !r.asExpected() {
			surprises++
		}
		if asTable {
			fmt.Fprint(stdout, r.row())
			continue
		}
		fmt.Fprint(stdout, r.line())
		results = append(results, r)
	}
	for _, r := range results {
		fmt.Fprint(stdout, r.story())
	}
	if surprises > 0 {
		return errors.New("not every verdict is as expected: see !! above")
	}
	return nil
}
