// Package cli is what the command lines of all programs have alike: how a program ends and with which exit code, how
// flags are read, and which build it is. It owns these conventions and knows no command.
//
//	0    done, or help was asked for
//	1    it could not be done; the message says why
//	2    the command line is wrong, and nothing was done
//	130  interrupted before it was done
//
// A command that has something else to tell by its code says so in its own help, and wraps its error by WithCode.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	failed      = 1
	misused     = 2
	interrupted = 130
)

// codedError is an error with the exit code that it stands for.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

// Usagef is an error in the command line that the user has typed. It takes the format and arguments of fmt.Errorf.
func Usagef(format string, args ...any) error { return WithCode(misused, fmt.Errorf(format, args...)) }

// WithCode gives err an exit code of its own. No error stays none.
func WithCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return codedError{err, code}
}

// Code is the exit code that err stands for.
func Code(err error) int {
	coded, own := errors.AsType[codedError](err)
	switch {
	case err == nil:
		return 0
	case own:
		return coded.code
	}
	return failed
}

// Main runs a program and exits. The first Ctrl-C, or SIGTERM, ends ctx, and run should return soon; the second ends
// the process at once.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx)
	code := report(os.Stderr, name, err, ctx.Err() != nil)
	stop()
	os.Exit(code)
}

// report tells a person what went wrong, and gives the exit code.
func report(stderr io.Writer, name string, err error, stopped bool) int {
	switch {
	case err == nil:
		return 0
	case stopped && errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "%s: interrupted\n", name) // "context canceled" would tell a person nothing
		return interrupted
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return Code(err)
}
