// Command failover shows what becomes of payments when PostgreSQL fails over to a standby, when the standby is away,
// and when the disk is full. `make failover` runs it.
//
// It runs the real programs on two real servers: their connection string names both, and asks for the one that can be
// written to. Nothing else tells them of a failover. What they must keep to is told by lab/invariants; what each case
// expects beside, by its own file.
//
//	sync    the primary dies under load; the standby has all that was acknowledged; nothing may be lost
//	async   the same without waiting for the standby: what is lost is counted, and must be found
//	away    the standby is away, and every commit waits for it without limit
//	full    the server's disk is full, for a while
//
// In these cases, the lab itself promotes. With HA=patroni, a cluster manager decides: managed.go has what happens to
// its nodes.
//
// Times are told and not judged, because they are this machine's, except one: how long the programs take to find a new
// primary.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"payonce/internal/cli"
	"payonce/lab/failover/patroni"
	"payonce/lab/failover/standby"
	"payonce/lab/program"
	"payonce/lab/world"
)

const usage = `Usage:
  failover           lose primaries, standbys and disk space under load; print a report, and write it as JSON

Settings, as environment variables with their defaults:
`

func main() {
	cli.Main("failover", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout,
			os.Stderr)
	})
}

// testCase is a failure, and what must hold in it.
type testCase struct {
	name, claim string
	run         func(context.Context, *lab, *outcome) error
}

func (s settings) cases() []testCase {
	if s.HA != "" {
		return patroniCases()
	}
	return []testCase{
		{"sync", "the primary is lost under load; nothing that was acknowledged is", syncCase},
		{"async", "the same without waiting for the standby; what is lost is found", asyncCase},
		{"away", "no charge for a reservation that only the primary has", awayCase},
		{"full", "without room for a reservation nothing is charged, and there is no restart", fullCase},
	}
}

// lab is what all cases share.
type lab struct {
	settings settings
	programs world.Programs
	dir      string
	say      func(string)
	version  string
	managed  managed
}

// errViolated is for the exit status; the report says what.
var errViolated = errors.New("not all holds, see the report")

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := program.Help(stdout, "failover", usage, settings{}, args); asked || err != nil {
		return err
	}
	s, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	l := &lab{settings: s, say: func(line string) { fmt.Fprintln(stderr, line) }}
	if l.dir, err = program.TempDir("failover"); err != nil {
		return err
	}
	defer func() {
		l.managed.close()
		_ = os.RemoveAll(l.dir)
	}()
	r := report{Lab: "failover", Seed: s.Seed, Violations: []program.Violation{}}
	if err := l.runCases(ctx, &r); err != nil {
		return err
	}
	if len(r.Violations) > 0 {
		program.Keep(l.settings.Keep, filepath.Join(l.dir, kept), l.say)
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

func (l *lab) runCases(ctx context.Context, r *report) (err error) {
	if l.programs, err = world.FindOrBuild(ctx, "", l.dir, l.say); err != nil {
		return err
	}
	for _, c := range l.settings.cases() {
		if !l.settings.wants(c.name) {
			continue
		}
		l.say(fmt.Sprintf("%s: %s", c.name, c.claim))
		o := outcome{Name: c.name, Says: c.claim}
		err := c.run(ctx, l, &o)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted in case %s; nothing was written", c.name)
		case errors.Is(err, standby.ErrNoBackup), errors.Is(err, errNoDisk), errors.Is(err, patroni.ErrMissing):
			o.Skipped = err.Error()
		case err != nil:
			o.broken("%v", err)
		}
		r.Cases = append(r.Cases, o)
		r.Violations = append(r.Violations, o.violations...)
		r.PostgreSQL = l.version
	}
	return nil
}

// settings of a run.
type settings struct {
	Seed   uint64   `env:"SEED" desc:"of what the clients ask for; 0: a new one, which is printed"`
	Quick  bool     `env:"QUICK" desc:"1: fewer payments, and no webhooks, whose jobs may be taken up again a minute and a half after a failover only"`
	Only   []string `env:"ONLY" desc:"cases to run, separated by commas: sync, async, away, full; with HA: switchover, postgres, node, manager-leader-first, manager-standby-first, paused, store"`
	HA     string   `env:"HA" desc:"patroni: three nodes of Patroni and one etcd, of which Debian's packages are fetched, instead of two servers"`
	DCS    string   `env:"DCS" desc:"with HA, settings of Patroni that replace ours, as JSON: {\"failsafe_mode\":false}"`
	Keep   string   `env:"KEEP" desc:"where history and logs are kept when something is wrong (default: bin/failover-SEED)"`
	Report string   `env:"REPORT" envDefault:"bin/failover.json" desc:"where the results go, as JSON"`
}

func loadSettings(getenv func(string) string) (settings, error) {
	s, err := program.Settings[settings]("failover", getenv)
	if err != nil {
		return s, err
	}
	for i, name := range s.Only {
		s.Only[i] = strings.TrimSpace(name)
		if !slices.ContainsFunc(s.cases(), func(c testCase) bool { return c.name == s.Only[i] }) {
			return s, fmt.Errorf("ONLY has %q, which is no case; see failover --help", name)
		}
	}
	if s.HA != "" && s.HA != "patroni" {
		return s, fmt.Errorf("HA has %q, which is no cluster manager that this lab has", s.HA)
	}
	if s.DCS != "" && !json.Valid([]byte(s.DCS)) {
		return s, fmt.Errorf("DCS has %q, which is no JSON", s.DCS)
	}
	s.Seed = program.Seed(s.Seed)
	if s.Keep == "" {
		s.Keep = fmt.Sprintf("bin/failover-%d", s.Seed)
	}
	return s, nil
}

func (s settings) wants(name string) bool { return len(s.Only) == 0 || slices.Contains(s.Only, name) }

// payments is how many are acknowledged before the primary is lost, and again after it.
func (s settings) payments() int {
	if s.Quick {
		return 60
	}
	return 400
}

// report of a run, as the labs write it.
type report struct {
	Lab        string              `json:"lab"`
	Seed       uint64              `json:"seed"`
	PostgreSQL string              `json:"postgresql,omitzero"`
	Violations []program.Violation `json:"violations"`
	Cases      []outcome           `json:"cases"`
}

// outcome of a case.
type outcome struct {
	Name    string `json:"name"`
	Says    string `json:"claim"`
	Skipped string `json:"skipped,omitzero"` // why

	Facts program.Facts `json:"facts,omitzero"`

	violations []program.Violation
}

// broken notes that the case did not go as it has to.
func (o *outcome) broken(format string, args ...any) {
	o.violations = append(o.violations, program.Broken("case", o.Name, fmt.Sprintf(format, args...)))
}

func (r report) print(w io.Writer) {
	fmt.Fprintf(w, "failover  seed %d  PostgreSQL %s\n", r.Seed, r.PostgreSQL)
	for _, o := range r.Cases {
		fmt.Fprintf(w, "\n%s: %s\n", o.Name, o.Says)
		if o.Skipped != "" {
			fmt.Fprintf(w, "  skipped: %s\n", o.Skipped)
		}
		o.Facts.Print(w)
	}
	program.PrintViolations(w, r.Violations)
}
