// Command citus runs what Payonce promises on Citus: PostgreSQL with the tables of tenants spread over workers. `make
// citus` runs it.
//
// It owns the order of the parts, and the one line for a PostgreSQL that has no Citus. The parts are not its own: the
// end-to-end tests with distributed databases (test/pgtest), one cell of each row of the crash matrix that can be
// played there, and the storm of lab/chaos on a coordinator and two workers, with crashes of each and tenants that move
// under load. It refuses to know what is right: the tests and lab/invariants say so.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"payonce/demo/embeddedpg"
	"payonce/internal/cli"
	"payonce/internal/config"
	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/cituscluster"
)

const usage = `Usage:
  citus           run the end-to-end tests, a short crash matrix and the storm on Citus, and have planted bugs found
  citus PART…     only these parts: tests, matrix, chaos, bugs; or cost, which says what a payment takes on Citus and
                  on one server, and fails if that is too much (docs/citus.md)

PG_BINDIR names a PostgreSQL that has Citus. Other settings, as environment variables: those of matrix and chaos, where
DURATION is 3m by default, and of cost:
`

func main() {
	cli.Main("citus", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	parts := []string{"tests", "matrix", "chaos", "bugs"}
	if len(args) > 0 {
		parts = args
	}
	for _, part := range parts {
		switch part {
		case "help", "--help", "-help", "-h":
			fmt.Fprint(stdout, usage)
			return config.Describe(stdout, nil, costSettings{})
		case "tests", "matrix", "chaos", "bugs", "cost":
		default:
			return cli.Usagef("part %q is not known; see citus --help", part)
		}
	}
	if _, err := program.Settings[costSettings]("citus", getenv); err != nil {
		return err
	}
	err := hasCitus(ctx)
	if errors.Is(err, cituscluster.ErrNoCitus) || errors.Is(err, embeddedpg.ErrNotInstalled) {
		_, err := fmt.Fprintf(stdout, "citus: SKIPPED, nothing was run: %v\n", cituscluster.ErrNoCitus)
		return err
	}
	if err != nil {
		return err
	}
	root, err := world.Root(ctx)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := play(ctx, root, part, getenv, stdout, stderr); err != nil {
			return fmt.Errorf("%s on Citus: %w", part, err)
		}
	}
	return nil
}

// hasCitus starts a cluster: whether the extension can be loaded is known only then.
func hasCitus(ctx context.Context) error {
	dir, err := program.TempDir("citus")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c, err := cituscluster.Start(ctx, embeddedpg.Options{DataDir: filepath.Join(dir, "trial")})
	if err != nil {
		return err
	}
	return errors.Join(c.CreateDatabase(ctx, "trial"), c.Stop(ctx), c.Remove())
}

const (
	testTimeout = "40m"
	stopLimit   = time.Minute
)

// play runs one part as a program of its own.
func play(ctx context.Context, root, part string, getenv func(string) string, stdout, stderr io.Writer) error {
	if part == "cost" {
		return cost(ctx, root, getenv, stdout, stderr)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	beside := func(program string) []string { return []string{filepath.Join(filepath.Dir(self), program)} }
	var command []string
	var env map[string]string
	switch part {
	case "tests":
		command = []string{"go", "test", "-count=1", "-timeout", testTimeout, "-run", getenv("RUN"),
			"./internal/postgres", "./internal/statement", "./test/blocks", "./test/cituscluster",
			"./test/e2e"}
	case "matrix":
		command, env = beside("matrix"), map[string]string{"QUICK": "1", "WORKERS": "3",
			"REPORT": "bin/citus-matrix.json"}
	case "chaos":
		command, env = beside("chaos"), map[string]string{"DURATION": "3m", "RATE": "15",
			"REPORT": "bin/citus-chaos.json"}
	case "bugs":
		command, env = beside("mutations"), map[string]string{"ONLY": "moved-while-called,call-in-a-block," +
			"cancelled-call-is-a-rollback", "REPORT": "bin/citus-mutations.json"}
	}
	fmt.Fprintf(stderr, "citus: %s\n", strings.Join(command, " "))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "SERVERS=3", world.TestsOnServers) // as the labs and test/pgtest call it
	for name, value := range env {
		if getenv(name) == "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopLimit
	return cmd.Run()
}
