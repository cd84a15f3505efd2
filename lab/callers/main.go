// Command callers has public HTTP clients of seven languages pay through Payonce and through step 07 of the course,
// while answers are lost, the PSP is slow or away, and the API is killed. `make callers` runs it.
//
// Three things are judged for each caller and each fault: how often the PSP has charged, by its own ledger; what the
// caller's program was told; and whether it could go on with the same key, that is whether the same call, made again
// afterwards, told the success.
//
//	callers.go  the callers, and how one is started and asked to pay
//	install.go  what they need, pinned, in a folder of its own; what is missing is named and not run
//	stage.go    the servers: a process of its own, between two proxies, for each caller that pays at a time
//	faults.go   what happens to a payment
//	table.go    the page
//
// Each caller is a script of its own below this folder, and sets the Idempotency-Key itself, the same on each try. The
// package refuses to know how a caller decides to send again: it counts what arrives.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"payonce/internal/cli"
	"payonce/lab/program"
	"payonce/lab/world"
)

const usage = `Usage: callers [flags]

Has public HTTP clients pay through Payonce and through step 07 of the course while things fail, and writes the tables
of docs/callers.md. Ends with 1 if anything was charged twice, or was told as paid and never charged.

Flags, and the environment variables that they take their defaults from:
  -wait   IN_FLIGHT_WAIT  how long the API holds an equal request while the first one runs, such as 0s; its own default
  -only   ONLY            scripts of some callers, such as curl.sh,got; then the page stays as it is
`

func main() {
	cli.Main("callers", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	if asked, err := cli.Help(stdout, usage, "callers", args); asked {
		return err
	}
	flags := cli.NewFlags("callers")
	wait := flags.String("wait", getenv("IN_FLIGHT_WAIT"), "")
	only := flags.String("only", getenv("ONLY"), "")
	if err := cli.Parse(flags, args, 0); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	began := time.Now()
	var saying sync.Mutex
	say := func(line string) {
		saying.Lock()
		defer saying.Unlock()
		fmt.Fprintf(stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), line)
	}
	dir, err := program.TempDir("callers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := world.Root(ctx)
	if err != nil {
		return err
	}
	results, err := payAll(ctx, chosen, root, dir, *wait, say)
	if ctx.Err() != nil {
		return errors.New("interrupted: all processes have ended, and nothing was judged")
	}
	if err != nil {
		return err
	}
	page := filepath.Join(root, "docs", "callers.md")
	if *only == "" {
		err = put(page, "columns", columns())
	}
	for _, r := range results {
		fmt.Fprintf(stdout, "%s\n\n%s\n", r.name, r.table())
		if *only == "" && err == nil {
			err = put(page, r.name, r.table())
		}
	}
	return errors.Join(verdict(results), err)
}

// payAll installs the callers, starts the servers, and returns when everybody has paid.
func payAll(ctx context.Context, chosen []caller, root, dir, wait string, say func(string)) (_ []result, err error) {
	say("installing the callers")
	ready, missing, err := install(ctx, chosen, filepath.Join(root, "lab", "callers"), dir)
	if err != nil {
		return nil, err
	}
	for _, line := range missing {
		say("not run: " + line)
	}
	g, err := open(ctx, root, dir, wait, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	return g.play(ctx, ready, missing)
}

// choose gives the callers of those scripts, or all.
func choose(only string) ([]caller, error) {
	if only == "" {
		return callers, nil
	}
	var chosen []caller
	for name := range strings.SplitSeq(only, ",") {
		n := slices.IndexFunc(callers, func(c caller) bool { return path.Base(c.script) == name })
		if n < 0 {
			return nil, cli.Usagef("there is no caller %q; lab/callers/callers.go has their scripts", name)
		}
		chosen = append(chosen, callers[n])
	}
	return chosen, nil
}
