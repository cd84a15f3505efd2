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
// The package decides nothing about who is to be promoted, nor how the old primary is kept from coming back: that is
// the work of a cluster manager, see docs/failover.md. Times are told and not judged: they are this machine's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"payonce/internal/cli"
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

func cases() []testCase {
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
	defer func() { _ = os.RemoveAll(l.dir) }()
	r := report{Lab: "failover", Seed: s.Seed, Violations: []program.Violation{}}
	if err := l.runCases(ctx, &r); err != nil {
		return err
	}
	if len(r.Violations) > 0 {
		l.keep()
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
	if l.programs, err = world.FindOrBuild(ctx, l.settings.Programs, l.dir, l.say); err != nil {
		return err
	}
	for _, c := range cases() {
		if !l.settings.wants(c.name) {
			continue
		}
		l.say(fmt.Sprintf("%s: %s", c.name, c.claim))
		o := outcome{Name: c.name, Says: c.claim}
		err := c.run(ctx, l, &o)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted in case %s; nothing was written", c.name)
		case errors.Is(err, standby.ErrNoBackup), errors.Is(err, errNoDisk):
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

// keep moves logs and histories to where they outlive the run.
func (l *lab) keep() {
	_ = os.RemoveAll(l.settings.Keep)
	if err := os.CopyFS(l.settings.Keep, os.DirFS(filepath.Join(l.dir, kept))); err != nil {
		l.say("keep logs: " + err.Error())
		return
	}
	l.say("history and logs are kept in " + l.settings.Keep)
}
