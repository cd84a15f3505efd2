package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"payonce/internal/cli"
	"payonce/lab/program"
	"payonce/lab/world"
)

const usage = `Usage:
  mutants              take one guard away at a time, and have the tests find it
  mutants list         each mutant, with what is known of it
  mutants score        how many are caught, by package and by kind, and why others stand

Settings, as environment variables with their defaults:
`

// settings of a run.
type settings struct {
	Package string `env:"PACKAGE" desc:"only these, separated by commas: packages (internal/gateway/...) or files"`
	Share   string `env:"SHARE" envDefault:"1/1" desc:"a random share of them: 1/5 is a fifth"`
	Count   int    `env:"COUNT" desc:"a sample of so many, whatever is known of them; 0: all without a verdict"`
	Seed    uint64 `env:"SEED" envDefault:"1" desc:"draws SHARE and COUNT"`
	Quick   bool   `env:"QUICK" desc:"1: only the tests of its own package, without measuring; what survives is not kept"`
	Fresh   bool   `env:"FRESH" desc:"1: try also those that are known to be caught, or to survive for a reason"`
	Workers int    `env:"WORKERS" desc:"how many run at once; 0: one for each processor"`
}

// Where the results are kept, and which test reaches what.
const (
	resultsFile = "bin/mutants-results.txt"
	reachFile   = "bin/mutants-reach.json"
)

func main() {
	cli.Main("mutants", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	command := strings.Join(args, " ")
	if asked, err := program.Help(stdout, "mutants", usage, settings{}, args, "list", "score"); asked || err != nil {
		return err
	}
	s, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	root, err := world.Root(ctx)
	if err != nil {
		return err
	}
	w := work{settings: s, root: root, stdout: stdout,
		say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }}
	if err := w.read(); err != nil {
		return err
	}
	switch command {
	case "list":
		return w.list()
	case "score":
		return w.score()
	}
	return w.try(ctx)
}

func loadSettings(getenv func(string) string) (settings, error) {
	s, err := program.Settings[settings]("mutants", getenv)
	if err != nil {
		return s, err
	}
	if _, _, err := s.share(); err != nil {
		return s, err
	}
	if s.Workers <= 0 {
		s.Workers = runtime.NumCPU()
	}
	return s, nil
}

// work is one call of this program.
type work struct {
	settings
	root      string
	stdout    io.Writer
	say       func(format string, args ...any)
	plan      plan
	survivors []survivor
	known     map[string]result
}

func (w *work) read() (err error) {
	if w.plan, err = makePlan(w.root); err != nil {
		return err
	}
	if err = w.checkPackage(); err != nil {
		return err
	}
	for _, place := range w.plan.skipped {
		w.say("not changed: %s", place)
	}
	if w.known, err = readResults(resultsFile); err != nil {
		return err
	}
	if w.survivors, err = readSurvivors(filepath.Join(w.root, "lab/mutants/survivors.txt")); err != nil {
		return err
	}
	return stale(w.survivors, w.plan, w.known)
}

// every is after how many mutants, or tests, the progress is told and kept.
const every = 25

func (w *work) try(ctx context.Context) (err error) {
	chosen := w.chosen()
	w.say("%d mutants, %d to try", len(w.plan.mutants), len(chosen))
	if len(chosen) == 0 {
		return w.judge()
	}
	dir, err := program.TempDir("mutants")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Mkdir(filepath.Join(dir, "clusters"), 0o711); err != nil {
		return err
	}
	b := &binaries{root: w.root, dir: dir}
	if b.overlay, err = w.plan.write(w.root, filepath.Join(dir, "source")); err != nil {
		return err
	}
	if b.packages, err = findTests(ctx, w.root); err != nil {
		return err
	}
	r, err := w.reach(ctx, b)
	if err != nil {
		return err
	}
	count, before, n := map[string]int{}, maps.Clone(w.known), 0
	err = spread(ctx, w.Workers, chosen, func(ctx context.Context, m mutant) (result, error) {
		if w.Quick {
			home, err := atHome(ctx, b, r, w.plan, m)
			if err != nil {
				return result{}, err
			}
			return try(ctx, b, append(home, last(m)[0]), m)
		}
		return try(ctx, b, append(batches(b, r, w.plan, m, before[m.hash]), last(m)...), m)
	}, func(m mutant, found result) error {
		if !w.Quick || found.verdict != survived {
			w.known[m.hash] = found
		}
		count[found.verdict]++
		if found.verdict == survived && reasonFor(w.survivors, m) == "" {
			w.say("survived: %s\n          %s", m.line, m.id())
		}
		if n++; w.Count == 0 && n%every > 0 && n < len(chosen) {
			return nil
		}
		w.say("%d/%d mutants, %d caught, %d hung, %d survived", n, len(chosen), count[caught], count[hung],
			count[survived])
		if w.Count > 0 {
			return nil
		}
		return writeResults(resultsFile, w.plan, w.known)
	})
	if w.Count == 0 {
		err = errors.Join(err, writeResults(resultsFile, w.plan, w.known))
	}
	if ctx.Err() != nil {
		return errors.New("interrupted; what was found is kept, and the next run goes on from there")
	}
	if w.Count > 0 {
		if err == nil && count[survived] > 0 {
			err = errors.New("a mutant survives: see above")
		}
		return err
	}
	return errors.Join(err, w.judge())
}

// reach is what is measured, or for a quick run what was measured before. A sample needs no measurement.
func (w *work) reach(ctx context.Context, b *binaries) (*reach, error) {
	switch {
	case w.Quick:
		return readReach(reachFile)
	case w.Count > 0:
		return nil, nil //nolint:nilnil // to measure takes longer than the sample
	}
	return measure(ctx, b, w.plan, w.Workers, reachFile, w.say)
}

// judge fails if a mutant that was asked for survives without a reason.
func (w *work) judge() error {
	open := 0
	for _, m := range w.plan.mutants {
		asked := w.Package == "" || asks(w.Package, m)
		if asked && w.known[m.hash].verdict == survived && reasonFor(w.survivors, m) == "" {
			open++
		}
	}
	if open > 0 {
		return fmt.Errorf("%d mutants survive: write a test, delete the guard, or give a reason in "+
			"lab/mutants/survivors.txt", open)
	}
	return nil
}
