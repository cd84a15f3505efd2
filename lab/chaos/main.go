// Command chaos runs Payonce as it is run in earnest, two APIs and two reconcilers on a real PostgreSQL, before a PSP
// that fails in every way it knows, and does to them what a bad month does, within a minute: kill -9, pauses beyond the
// lease, crashes of PostgreSQL, lost acknowledgements, exhausted pools, networks that fail in the middle. Meanwhile
// clients retry, hang up, race, reuse keys and lie, and others refund at the PSP what was charged. Everything that
// clients ask and hear is recorded. Two tenants want events, at endpoints that fail (lab/merchant), and what they hear
// is recorded, too. Then it waits for quiet, and checks I1 to I11. `make chaos` runs it.
//
// It owns the arc of a run (run.go), the stage (stage.go), what the clients' view of the PSP's ledger is (books.go),
// the list of what must have happened (sometimes.go), and the report. The packages below it own the means: plan what a
// seed decides, crowd the clients, nemesis the blows, tally the counting. lab/world is what runs, lab/history and
// lab/invariants are the judges.
//
// A seed replays what the clients want, what is struck when, and how often the PSP fails; not how it interleaves.
// Retention and audit are short: keys expire, are deleted, and are used again for another order within a run. A client
// begins the next life of a key when the server has said that the one before is over (package crowd), and each life is
// judged by itself.
//
// PSP=stripe has the mock PSP speak that dialect: payments of two steps, customers and banks that take their time,
// saved 500s, forgotten keys, unknown and double events, and another program that charges in the same accounts. The
// clients and the blows are the same. What a run must have hit differs: such a PSP cannot execute what a lookup has
// cancelled.
//
// TARGET=naive sends the same clients through the same storm against step 01 of the course, which remembers keys after
// charging, and counts what that costs.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"payonce/internal/cli"
	"payonce/lab/program"
)

const usage = `Usage: chaos

Runs Payonce through a storm, and checks that nothing was charged twice and nothing was lost. The report goes to stdout, progress to stderr.
Ends with 1 on a violation, and when something that must sometimes happen did not.

Settings, as environment variables with their defaults:
`

func main() {
	cli.Main("chaos", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := program.Help(stdout, "chaos", usage, settings{}, args); asked || err != nil {
		return err
	}
	s, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	report, err := storm(ctx, s, stderr)
	if ctx.Err() != nil {
		return errors.New("interrupted: all processes have ended, and nothing was checked")
	}
	if err != nil {
		return err
	}
	report.print(stdout)
	return verdict(s, report)
}
