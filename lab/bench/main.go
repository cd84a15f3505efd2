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
	"io"
	"os"
	"path/filepath"

	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/lab/bench/load"
	"payonce/lab/bench/psp"
	"payonce/lab/bench/report"
)

const usage = `Usage:
  bench              measure, print a table, and write the results as JSON
  bench convert      JSON on stdin to the Go benchmark format on stdout, for benchstat
  bench markdown     JSON on stdin to a table of the bars
  bench load         generate load: a plan as JSON on stdin, the result on stdout
  bench psp          serve a PSP that charges everything

Settings, as environment variables with their defaults:
`

func main() {
	cli.Main("bench", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	})
}

func run(
	ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer,
) error {
	if len(args) == 0 {
		return measure(ctx, getenv, stdout, stderr)
	}
	if len(args) > 1 {
		return cli.Usagef("argument %q is not known; see bench --help", args[1])
	}
	switch args[0] {
	case "load":
		return load.Command(ctx, stdin, stdout)
	case "psp":
		return psp.Command(ctx, stdin, stdout)
	case "convert":
		return report.Convert(stdin, stdout)
	case "markdown":
		r, err := report.Read(stdin)
		if err != nil {
			return err
		}
		return r.Markdown(stdout)
	case "help", "--help", "-help", "-h":
		fmt.Fprint(stdout, usage)
		return config.Describe(stdout, nil, settings{})
	case "--version", "version":
		return cli.PrintVersion(stdout, "bench")
	}
	return cli.Usagef("command %q is not known; see bench --help", args[0])
}

func measure(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	s, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	result, err := runBench(ctx, s, stderr)
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was written")
	}
	if err != nil {
		return err
	}
	if err := result.Table(stdout); err != nil {
		return err
	}
	return write(s.JSON, result)
}

func write(path string, r report.Report) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(r.JSON(file), file.Close())
}
