// Dbos is a peer for the benchmark: the same idempotent payment, written the way a user of DBOS Transact for Go would
// write it.
//
// It owns one workflow of three steps (reserve, charge, complete), the table they write, and a small HTTP face. DBOS
// owns everything about idempotency here: the Idempotency-Key is the workflow's id, and what a repeated key answers is
// the result that DBOS has recorded. The program refuses to know API keys, fingerprints, refunds, webhooks and
// reconciliation, so it does less than Payonce per request; README.md says what that means for a comparison.
//
// Invariants: no answer before the workflow's outcome is committed; a stop finishes the payments in flight; nothing but
// DBOS decides whether a key runs again. A module of its own keeps the dependencies of DBOS out of the application's
// go.mod.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"payonce/internal/cli"
)

func main() {
	cli.Main("dbos", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		if args[0] == "--version" || args[0] == "version" {
			return cli.PrintVersion(stdout, "dbos")
		}
		if a := args[0]; a != "--help" && a != "-h" && a != "help" {
			return cli.Usagef("argument %q is not known; see dbos --help", a)
		}
		fmt.Fprint(stdout, usage)
		return nil
	}
	s, err := readSettings(getenv)
	if err != nil {
		return err
	}
	p, err := open(ctx, s, stderr)
	if err != nil {
		return err
	}
	return p.serve(ctx, s.addr, stdout)
}
