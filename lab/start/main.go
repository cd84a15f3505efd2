// Command start makes a service of one's own from this repository: it copies the core, what the core's tests need, and
// what a folder needs to stand alone, and gives the module another name. tools/start runs it, and docs/start.md is the
// page for those who use it.
//
// What belongs to the core is said by test/archtest/rings.go, so nothing is listed here twice. It owns the copy
// (copy.go), what is left in the folder beside it (left.go), and the checks of what was asked for. It refuses to change
// the code in any other way: the copy's tests are ours.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"payonce/internal/cli"
)

const usage = `Usage: tools/start DIR MODULE

Makes a service of your own from Payonce: tools/start ../pay example.com/shop/pay

  DIR     the new folder; it may exist if it is empty
  MODULE  the path of the Go module there, such as example.com/shop/pay

The folder gets the core of Payonce (the API, the reconciler, their tables and tests), what its tests need, a mock of
the payment provider, and the grader as bin/grade. It needs Go, git and a checkout of Payonce, and downloads only
modules that Payonce itself uses.

Environment variables:
  RINGS  core (default); or core,operations: with the console, events, statements and Stripe, too
  GO     the go command (default: go)

docs/start.md says what to change first, and what never to change.
Exit codes: 0 done; 1 it could not be done, and the folder is as before; 2 the command line is wrong.
`

// wish is what somebody has asked for.
type wish struct {
	from, dir, module string
	operations        bool
	goCommand         string
}

func main() {
	cli.Main("start", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if cli.AsksForHelp(args) {
		_, err := io.WriteString(stdout, usage)
		return err
	}
	w, err := readWish(ctx, args, getenv)
	if err != nil {
		return err
	}
	status, err := w.uncommitted(ctx)
	if err != nil {
		return err
	}
	if status != "" {
		fmt.Fprintf(stderr, "not committed in Payonce: the copy has what is changed, and not what is new (??)\n%s", status)
	}
	fmt.Fprintln(stdout, "copying to", w.dir, "…")
	counted, err := w.make(ctx)
	if err != nil {
		return err
	}
	return counted.write(stdout, w)
}

func readWish(ctx context.Context, args []string, getenv func(string) string) (wish, error) {
	flags := cli.NewFlags("tools/start")
	from := flags.String("from", ".", "")             // said by tools/start
	if err := cli.Parse(flags, args, 2); err != nil { //nolint:mnd // DIR and MODULE
		return wish{}, err
	}
	w := wish{from: *from, dir: flags.Arg(0), module: flags.Arg(1), goCommand: getenv("GO")}
	if w.goCommand == "" {
		w.goCommand = "go"
	}
	if w.dir == "" || w.module == "" {
		return w, cli.Usagef("name a folder and a module: tools/start ../pay example.com/shop/pay; see tools/start --help")
	}
	switch rings := getenv("RINGS"); rings {
	case "", "core":
	case "core,operations":
		w.operations = true
	default:
		return w, cli.Usagef("RINGS is %q, must be core or core,operations", rings)
	}
	if err := checkModule(w.module); err != nil {
		return w, err
	}
	var err error
	if w.from, err = filepath.Abs(w.from); err != nil {
		return w, fmt.Errorf("find Payonce: %w", err)
	}
	if w.dir, err = filepath.Abs(w.dir); err != nil {
		return w, fmt.Errorf("find the folder: %w", err)
	}
	w.dir = real(w.dir)
	if err := w.checkDir(ctx); err != nil {
		return w, err
	}
	return w, w.checkGit(ctx)
}

// A module path begins with a domain, so that it never meets a package of Go's own.
var modulePath = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+` +
	`(/[A-Za-z0-9_~-]([A-Za-z0-9._~-]*[A-Za-z0-9_~-])?)*$`)

func checkModule(module string) error {
	if !modulePath.MatchString(module) {
		return cli.Usagef("MODULE is %q, must be a domain and a path, such as example.com/shop/pay", module)
	}
	return nil
}

// checkDir refuses a folder that has something in it, and one that would become a part of Payonce.
func (w wish) checkDir(ctx context.Context) error {
	entries, err := os.ReadDir(w.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Lstat(w.dir); err == nil {
			return cli.Usagef("%s is a link to nothing: name a folder", w.dir)
		}
	case err != nil:
		return cli.Usagef("DIR is no folder: %w", err)
	case len(entries) > 0:
		return cli.Usagef("%s is not empty: name a folder that is, or a new one", w.dir)
	}
	if inside, err := filepath.Rel(real(w.from), real(w.dir)); err != nil || !filepath.IsLocal(inside) {
		return nil //nolint:nilerr // no way leads from Payonce to it
	}
	if exec.CommandContext(ctx, "git", "-C", w.from, "check-ignore", "-q", w.dir).Run() != nil {
		return cli.Usagef("%s is inside of Payonce, and git would take it for a part of it: name a folder outside", w.dir)
	}
	return nil
}

// real is a path without symbolic links, as far as it exists.
func real(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(real(parent), filepath.Base(path))
}
