// Command caller shows what a caller has to do so that "charge once" holds: it pays thousands of intents through real
// APIs that are killed, through a proxy that loses requests and answers, at a PSP that fails. Meanwhile the calling
// process itself is killed (SIGKILL) at each of its boundaries, and started again. Then the PSP's ledger is read: how
// often was each intent charged? `make caller` runs it.
//
// Three callers do this beside each other, in the same storm. "client" is package client. "new key per attempt" and
// "key in memory" are the usual retry loop, once with a key for each request, once with a key for each call: the first
// one charges twice when an answer is lost, the second one when the process dies.
//
//	main.go      what is run, and the verdict
//	settings.go  the size of a run
//	storm.go     the arc of a run
//	stage.go     the programs, and what fails
//	shop.go      the parent of a caller: starts it, kills it at a boundary, starts it again
//	boundary.go  where a caller can be killed
//	child.go     the calling process: this program, executed again
//	payer.go     package client, with a hook at each boundary
//	usual.go     the usual retry loop, with the same hooks
//	judge.go     what the PSP's ledger says
//
// A boundary is reached by an event and not by time: the child says on a pipe where it is and waits, and the parent
// kills it there. A seed decides which intents are stopped where, and which calls the proxy loses; not how all of it
// interleaves. The package refuses to ask the API what was charged: the PSP's ledger alone decides.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"payonce/internal/cli"
	"payonce/lab/program"
)

const usage = `Usage:
  caller      pay through a storm while the calling process is killed; print what the PSP has charged

Ends with 1 unless package client was charged exactly once for each intent, and the usual retry loops were not.

Settings, as environment variables with their defaults:
`

func main() {
	if description := os.Getenv(childVariable); description != "" {
		os.Exit(child(description, os.Stdin, os.Stdout, os.Stderr))
	}
	cli.Main("caller", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := program.Help(stdout, "caller", usage, settings{}, args); asked || err != nil {
		return err
	}
	s, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	books, err := storm(ctx, s, stderr)
	if ctx.Err() != nil {
		return errors.New("interrupted: all processes have ended, and nothing was judged")
	}
	if err != nil {
		return err
	}
	print(stdout, s, books)
	return verdict(books)
}
