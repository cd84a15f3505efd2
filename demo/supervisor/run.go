// Package supervisor is the demo. It runs everything: PostgreSQL, the API and the reconciler as child processes, and
// the mock PSP in its own process. It needs no settings, takes no port for the database, keeps its data between runs,
// and ends with Ctrl-C.
//
// It starts a child again when the child ends, so that a person may kill it: the page /demo/ on the operator's listener
// has buttons for that. The API keys that it makes are well known. They exist in the demo only.
//
//	run.go         the command line
//	serve.go       the order of starting and stopping
//	listen.go      the listeners, which outlive the children; the operator's leads to the API's child, or to the page
//	database.go    PostgreSQL, its crash and restart, the demo's keys
//	children.go    which children there are, what they are given, and what they do
//	supervise.go   keeps one child running; the events of all processes, for the pictures of keys
//	program.go     starts and stops one process
//	page.go        what the page with the buttons is given, also to stop a payment at a crash window
//	shop.go        the merchant's shop, which is told by events
//	naive.go       the naive server, with which the page compares ours
package supervisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"payonce/internal/cli"
	"payonce/internal/config"
)

// Main is the program: the demo, or one of its children if the arguments say so.
func Main() {
	cli.Main("demo", func(ctx context.Context) error {
		if work := childWork(os.Args[1:]); work != nil {
			go endWithSupervisor(os.Stdin)
			return work(ctx, os.Getenv, os.Stdout, os.Stderr)
		}
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

const usage = `Usage: demo
       demo --version

Runs PostgreSQL, the mock PSP, the API and the reconciler until interrupted. Prints a link to a page and commands to
try. The page sends payments, and kills and crashes the processes; they come back by themselves. If DATABASE_URL is set,
the demo uses the server at this address. If not, the demo looks for PostgreSQL's programs in PG_BINDIR, in PATH and in
the usual folders. If there is no PostgreSQL, the demo installs it.

With PSP=stripe, the mock PSP speaks Stripe's dialect to the API and the reconciler, at MOCKPSP_STRIPE_ADDR. The accounts
are acct_acme and acct_globex. Nothing is sent to Stripe.

Settings, as environment variables with their defaults:
`

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	switch command := strings.Join(args, " "); {
	case command == "help" || cli.AsksForHelp(args):
		fmt.Fprint(stdout, usage)
		return config.Describe(stdout, demoDefaults(), demoOnly{}, config.API{}, config.Reconciler{})
	case command == "version" || command == "--version" || command == "-version":
		return cli.PrintVersion(stdout, "demo")
	case command != "":
		return cli.Usagef("argument %q is not known; see demo --help", args[0])
	}
	return serve(ctx, getenv, stdout, &oneAtATime{to: stderr})
}
