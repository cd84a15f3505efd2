// Command rolling plays a rolling update: programs of two versions at once over one database, under load. `make
// rolling` runs it.
//
// The old version is that of a git ref. The new one is the tree, with two more migrations that a release could bring:
// a column, a table and an index. So old programs run over a newer schema in each run, also before there is a second
// release.
// The order is that of docs/production.md: the migration, then one API after the other, then the reconcilers.
//
// What payments must keep to is told by lab/invariants. This package counts what an update may cost its clients:
// answers that were lost, refused connections, and answers that nobody has without an update. There must be none. Each
// process must end in good order. Times are told and not judged: they are this machine's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"payonce/internal/cli"
	"payonce/lab/program"
)

const usage = `Usage:
  rolling            update APIs and reconcilers under load, one by one; print a report, and write it as JSON

Settings, as environment variables with their defaults:
`

func main() {
	cli.Main("rolling", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

// settings of a run.
type settings struct {
	Old    string `env:"OLD" desc:"git ref of the old version (default: the newest tag v* before this commit, or this tree if there is none)"`
	Seed   uint64 `env:"SEED" desc:"of what the clients ask for; 0: a new one, which is printed"`
	Quick  bool   `env:"QUICK" desc:"1: fewer payments in each step, and no crash of a reconciler, whose job is taken up again a minute and a half later"`
	Keep   string `env:"KEEP" desc:"where history and logs are kept when something is wrong (default: bin/rolling-SEED)"`
	Report string `env:"REPORT" envDefault:"bin/rolling.json" desc:"where the results go, as JSON"`
}

// payments is how many come to an end in each step.
func (s settings) payments() int {
	if s.Quick {
		return 100
	}
	return 600
}

// report of a run, as the labs write it.
type report struct {
	Lab        string              `json:"lab"`
	Seed       uint64              `json:"seed"`
	Old        string              `json:"old"`
	Violations []program.Violation `json:"violations"`
	Facts      program.Facts       `json:"facts"`
}

func (r *report) broken(invariant, where, format string, args ...any) {
	r.Violations = append(r.Violations, program.Broken(invariant, where, fmt.Sprintf(format, args...)))
}

// errViolated is for the exit status; the report says what.
var errViolated = errors.New("not all holds, see the report")

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := program.Help(stdout, "rolling", usage, settings{}, args); asked || err != nil {
		return err
	}
	s, err := program.Settings[settings]("rolling", getenv)
	if err != nil {
		return err
	}
	s.Seed = program.Seed(s.Seed)
	if s.Keep == "" {
		s.Keep = fmt.Sprintf("bin/rolling-%d", s.Seed)
	}
	dir, err := program.TempDir("rolling")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	say := func(line string) { fmt.Fprintln(stderr, line) }
	r := report{Lab: "rolling", Seed: s.Seed, Violations: []program.Violation{}}
	if err := update(ctx, s, dir, say, &r); err != nil {
		return err
	}
	if len(r.Violations) > 0 {
		program.Keep(s.Keep, filepath.Join(dir, kept), say)
	}
	r.print(stdout)
	if err := program.Write(s.Report, r); err != nil {
		return err
	}
	if len(r.Violations) > 0 {
		return errViolated
	}
	return nil
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "rolling  seed %d  from %s to this tree\n\n", r.Seed, r.Old)
	r.Facts.Print(w)
	program.PrintViolations(w, r.Violations)
}
