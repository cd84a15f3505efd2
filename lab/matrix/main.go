package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payonce/internal/cli"
	"payonce/lab/program"
	"payonce/lab/world"
)

const usage = `Usage:
  matrix              play the crash matrix and print its grid
  matrix cells        list the cells by the names that ONLY takes

Settings, as environment variables with their defaults:
`

func main() {
	cli.Main("matrix", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	switch strings.Join(args, " ") {
	case "":
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

// settings of a run.
type settings struct {
	Quick    bool          `env:"QUICK" desc:"1: one cell of each row, drawn by the seed, in a minute and a half"`
	Seed     uint64        `env:"SEED" desc:"draws the cells of a quick run; 0: a new one, which is printed"`
	Only     string        `env:"ONLY" desc:"cells to play, separated by commas: payment, payment/3, payment/3b or payment/3b/kill"`
	Workers  int           `env:"WORKERS" envDefault:"10" desc:"cells at once, from 1 to 32"`
	Limit    time.Duration `env:"LIMIT" envDefault:"75s" desc:"longest time for a cell; what has come to no end by then is taken for stuck"`
	Servers  world.Servers `env:"SERVERS" envDefault:"1" desc:"PostgreSQL servers, 1 or 3: the rows of tenants are spread over two of three, and cells that need one server are left out"`
	Programs string        `env:"PROGRAMS" desc:"directory of api, reconciler and mockpsp, instead of building them; rows with a star need a build in its directory stops"`
	Keep     string        `env:"KEEP" desc:"where the remains of a cell that fails are kept; default: bin/matrix-SEED"`
	Report   string        `env:"REPORT" envDefault:"bin/matrix.json" desc:"where the report goes, as JSON"`
}

const maxWorkers = 32

func loadSettings(getenv func(string) string) (settings, error) {
	s, err := program.Settings[settings]("matrix", getenv)
	if err != nil {
		return s, err
	}
	if s.Workers < 1 || s.Workers > maxWorkers {
		return s, fmt.Errorf("WORKERS is %d, must be from 1 to %d", s.Workers, maxWorkers)
	}
	if s.Limit <= 0 {
		return s, fmt.Errorf("LIMIT is %s, must be positive", s.Limit)
	}
	s.Seed = program.Seed(s.Seed)
	if s.Keep == "" {
		s.Keep = filepath.Join("bin", fmt.Sprintf("matrix-%d", s.Seed))
	}
	_, err = s.choose()
	return s, err
}

// choose lists the cells of the run.
func (s settings) choose() ([]cell, error) {
	played := slices.DeleteFunc(cells(flows()), func(c cell) bool {
		return slices.ContainsFunc(c.needs(), func(a world.Ability) bool { return !s.Servers.Can(a) })
	})
	all, err := selected(played, s.Only)
	if err == nil && s.Quick {
		all = sample(all, s.Seed)
	}
	return all, err
}

// keepIn is the directory of a cell's remains.
func (s settings) keepIn(cell string) string {
	return filepath.Join(s.Keep, strings.ReplaceAll(cell, "/", "-"))
}
