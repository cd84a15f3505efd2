// Command bench measures Payonce against what PostgreSQL itself can do on the same machine in the same run: pgbench
// with exactly the SQL that the API sends. `make bench` runs it.
//
// It owns the questions, one file each, and what counts as an answer. The packages below it own the means: rig what is
// measured, load and pgbench what makes it work, meter what that costs, report how it is told. The things that are
// compared take turns, slice by slice. A slice in which something else was busy on the machine is dropped, and the
// table says how many were.
//
// It makes no claim about a time in seconds: the bars are ratios of two things measured side by side, or counts. CI
// does not run it; what does not depend on the machine is held by tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/lab/bench/load"
)

const usage = `Usage:
  bench              measure, and print a table
  bench load         generate load: a plan as JSON on stdin, the result on stdout

Settings, as environment variables with their defaults:
`

func main() { cli.Main("bench", func(ctx context.Context) error { return run(ctx, os.Args[1:]) }) }

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		s, err := loadSettings(os.Getenv)
		if err != nil {
			return err
		}
		if err = measure(ctx, s); ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	switch args[0] {
	case "load":
		return load.Command(ctx, os.Stdin, os.Stdout)
	case "help", "--help", "-help", "-h":
		fmt.Fprint(os.Stdout, usage)
		return config.Describe(os.Stdout, nil, settings{})
	case "--version", "version":
		return cli.PrintVersion(os.Stdout, "bench")
	}
	return cli.Usagef("command %q is not known; see bench --help", args[0])
}
