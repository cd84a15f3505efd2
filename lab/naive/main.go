// Command naive is the wrong way: idempotent payments as they are built after reading one good article, behind the same
// API as Payonce. It looks the key up, charges, then remembers the key with the answer. It passes every demo, and it
// charges twice.
//
// It owns nine well-known faults, each marked "Fault n:" where it is, told in README.md, and shown by a test that reads
// the provider's ledger. Everything else is done as well as one would expect: a lesson that failed for sloppiness would
// teach nothing.
//
// It refuses to know Payonce: no package of ours is imported, so that neither's mistakes are the other's. A fault that
// is fixed breaks its test. Never deploy it.
//
//	pay.go      look up, charge, remember: the lesson
//	psp.go      the provider
//	store.go    the two tables
//	order.go    what is asked
//	payment.go  what is answered
//	read.go     GET
//	serve.go    routes and listeners
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "naive: %v\n", err)
		os.Exit(exitCode(err))
	}
}

// errUsage is a mistake in the command line. The exit code tells it from a failure.
var errUsage = errors.New("not known")

func exitCode(err error) int {
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

func printVersion(stdout io.Writer) error {
	version := "devel"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = build.Main.Version + ", " + build.GoVersion
	}
	_, err := fmt.Fprintln(stdout, "naive", version)
	return err
}

// run serves until ctx ends. A clean end returns nil.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		if args[0] == "--version" {
			return printVersion(stdout)
		}
		if a := args[0]; a != "--help" && a != "-h" && a != "help" {
			return fmt.Errorf("argument %q is %w; see naive --help", a, errUsage)
		}
		fmt.Fprint(stdout, usage)
		return nil
	}
	set, err := readSettings(getenv)
	if err != nil {
		return err
	}
	db, err := openStore(ctx, set.databaseURL)
	if err != nil {
		return err
	}
	defer db.close()
	s := &service{
		store: db,
		psp:   newProvider(set),
		keys:  set.apiKeys,
		log:   slog.New(slog.NewTextHandler(stderr, nil)),
	}
	defer s.psp.close()
	return s.serve(ctx, set, stdout)
}
