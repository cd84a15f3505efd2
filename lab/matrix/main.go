package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"payonce/internal/cli"
	"payonce/lab/program"
)

const usage = `Usage:
  matrix              play the crash matrix and print its grid
  matrix markdown     a report, as JSON on stdin, to a table
  matrix cells        list the cells by the names that ONLY takes

Settings, as environment variables with their defaults:
`

func main() {
	cli.Main("matrix", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	})
}

func run(
	ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer,
) error {
	switch strings.Join(args, " ") {
	case "":
	case "markdown":
		r, err := readReport(stdin)
		if err != nil {
			return err
		}
		return r.markdown(stdout)
	case "cells":
		for _, c := range cells(flows()) {
			fmt.Fprintln(stdout, c.name())
		}
		return nil
	default:
		_, err := program.Help(stdout, "matrix", usage, settings{}, args)
		return err
	}
	s, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	r, err := play(ctx, s, stderr)
	if err != nil {
		return err
	}
	if err := errors.Join(program.Write(s.Report, r), r.text(stdout)); err != nil {
		return err
	}
	if n := len(r.Violations); n > 0 {
		return fmt.Errorf("%d violations; what is left of the cells is in %s", n, s.Keep)
	}
	return nil
}

// play plays the cells of a run.
func play(ctx context.Context, s settings, stderr io.Writer) (_ report, err error) {
	chosen, err := s.choose()
	if err != nil {
		return report{}, err
	}
	began := time.Now()
	dir, err := program.TempDir("matrix")
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m := &matrix{settings: s, out: stderr}
	m.say("seed %d, %d cells", s.Seed, len(chosen))
	if err := m.open(ctx, dir); err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, m.site.Close()) }()
	if m.stopping == nil {
		chosen = slices.DeleteFunc(chosen, func(c cell) bool { return c.row.at.at == inside })
	}
	m.runAll(ctx, chosen)
	if ctx.Err() != nil {
		return report{}, fmt.Errorf("interrupted: %d of %d cells were played, and no report was written", len(m.done),
			len(chosen))
	}
	return m.report(began), nil
}
