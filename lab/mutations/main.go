// Command mutations proves that the proofs can fail. Each file in bugs plants one bug: it takes away a guard that
// Payonce has, in a build of its own. Then the crash matrix, the chaos run or a test has to find it. `make mutations`
// runs them all, and prints which invariant has told. Command mutants takes away each condition by rule, and asks the
// tests. A bug is here if people learn from it, or if only these runs can tell.
//
// The product has no switch for any of this: the changes are made in copies of the files, and `go build -overlay` puts
// the copies in their place. A bug that no longer applies is an error, and so is one that nobody catches: then the
// suite is wrong, or the guard is not needed.
//
// A file begins with prose: what the bug is, which guard it removes, and lines that name what is tried, in this order,
// until it is caught. Then it names declarations, wherever they are, and the lines in them that are replaced:
//
//	Catch: matrix payment/2/pause
//	Catch: chaos
//	Catch: test ./internal/door TestLockedDoorStaysShut
//
//	in Door.open
//	-	if d.locked {
//	+	if false {
//
// `make break BUG=name` plants one bug in the demo, for a person who wants to see what fails.
//
// It owns the bugs and the table. It refuses to know what a violation is: it reads the reports of the others.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payonce/internal/cli"
	"payonce/lab/program"
	"payonce/lab/world"
)

const usage = `Usage:
  mutations              plant each bug, and have it found
  mutations demo BUG     build the demo with one bug, to bin/break/BUG/demo; make break builds and runs it

Settings, as environment variables with their defaults:
`

// settings of a run.
type settings struct {
	Quick  bool   `env:"QUICK" desc:"1: a few of them, drawn by the seed"`
	Few    int    `env:"MUTATIONS" envDefault:"3" desc:"how many a quick run takes"`
	Seed   uint64 `env:"SEED" desc:"draws those of a quick run, and is passed on to what is run; 0: a new one"`
	Only   string `env:"ONLY" desc:"names of bugs, separated by commas"`
	Report string `env:"REPORT" envDefault:"bin/mutations.json" desc:"where the report goes, as JSON"`
}

// limit of what is run for one bug.
const limit = 6 * time.Minute

func main() {
	cli.Main("mutations", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "demo" {
		return demo(ctx, args[1:], stdout)
	}
	switch strings.Join(args, " ") {
	case "":
	default:
		_, err := program.Help(stdout, "mutations", usage, settings{}, args)
		return err
	}
	s, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	results, err := plantAll(ctx, s, stderr)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d bugs; no report was written", len(results))
	}
	if err != nil {
		return err
	}
	err = program.Write(s.Report, report{"mutations", s.Seed, results})
	return errors.Join(err, table(stdout, results), judge(results))
}

func loadSettings(getenv func(string) string) (settings, error) {
	s, err := program.Settings[settings]("mutations", getenv)
	if err != nil {
		return s, err
	}
	if s.Few < 1 {
		return s, fmt.Errorf("MUTATIONS is %d, must be positive", s.Few)
	}
	s.Seed = program.Seed(s.Seed)
	return s, nil
}

// judge fails when a bug was not caught.
func judge(results []result) error {
	var missed []string
	for _, r := range results {
		if len(r.Invariants) == 0 {
			missed = append(missed, r.Name)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(missed, ", "))
	}
	return nil
}

// demo is the command "mutations demo".
func demo(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 1 {
		return cli.Usagef("one bug at a time; see mutations --help")
	}
	name := strings.Join(args, "")
	return buildDemo(ctx, name, filepath.Join("bin", "break", name), stdout)
}

// buildDemo builds the demo with one bug, to dir/demo. The program says on each of its pages which bug it has.
func buildDemo(ctx context.Context, name, dir string, stdout io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	root, err := world.Root(ctx)
	if err != nil {
		return err
	}
	bugs, err := readBugs(filepath.Join(root, "lab", "mutations", "bugs"))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == name })
	if i < 0 {
		for _, b := range bugs {
			fmt.Fprintf(stdout, "  %-36s %s\n", b.name, b.what)
		}
		if name == "" {
			return cli.Usagef("which bug? make break BUG=<one of the names above>")
		}
		return cli.Usagef("%q is no bug of those above; make break BUG=<one of the names above>", name)
	}
	b := bugs[i]
	source, err := os.MkdirTemp("", "payonce-break-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(source) }()
	t, err := readTree(root)
	if err != nil {
		return err
	}
	overlay, err := b.apply(t, filepath.Join(source, "source"))
	if err != nil {
		return err
	}
	file, err := world.WriteOverlay(root, source, overlay)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "planting %s: %s\n", b.name, b.what)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", file,
		"-ldflags", planted(b), "-o", filepath.Join(dir, "demo"), "./cmd/demo")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the demo with %s: %w", b.name, err)
	}
	return nil
}

// planted is the linker's flag that has the demo say its bug. The go command takes quotes of either kind around a flag,
// and nothing that would let a quote be inside of its own kind.
func planted(b bug) string {
	return `-X "payonce/demo/supervisor.planted=` + b.name + ": " + strings.ReplaceAll(b.what, `"`, "'") + `"`
}
