package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

func TestCommandLineOfAnOperatorThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":            "name a command: run, statement, scan, key, timeline or healthcheck;",
		"statement x": `argument "x" is not known`, "statement --since 1": "flag provided but not defined: -since",
		"statement --date tomorrow": "want today, yesterday, or YYYY-MM-DD",
		"statement --date":          "flag needs an argument", "statement --format xml": "not table, csv or json",
		"scan acme": `argument "acme" is not known`, "scan --since 1h": "flag provided but not defined: -since",
		"key": "say key show", "key list": "say key show", "key show": "name the key",
		"key show --tenant acme": "name the key", "key show k": "name the tenant",
		"key show k l --tenant acme":                  `argument "l" is not known`,
		"key show k --tenant acme --operation refund": "--operation must be",
	} {
		wantUsageError(t, args, want)
	}
}

// A statement of millions of lines is read with the memory that the process has. The garbage collector is set unless
// GOGC is, so it is asked for.
func TestEachCommandThatOpensAReconcilerTunesItsMemory(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"run", "statement", "scan", "key show k --tenant acme", "timeline k --tenant acme"} {
		ctx, end := context.WithCancel(t.Context())
		end() // The command ends as soon as its parts are made.
		tuned := false
		env := map[string]string{"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "PSP_SECRET": "unused",
			"RECONCILER_ADDR": "127.0.0.1:0", "GOGC": "100"}
		err := run(ctx, strings.Fields(args), func(name string) string {
			tuned = tuned || name == "GOGC"
			return env[name]
		}, io.Discard, io.Discard)
		if !tuned {
			t.Errorf("reconciler %s: not tuned: %v", args, err)
		}
	}
}

func TestFailureOfAnOperatorsCommandIsNoUsageError(t *testing.T) {
	t.Parallel()
	for args, code := range map[string]int{
		"scan": 1, "key show k --tenant acme": 1,
		"statement": 2, // where 1 says that there are breaks
	} {
		wantNoDatabase(t, args, code)
	}
}

func TestHelpForOperatorsNeedsNoSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"help":         "reconciler timeline ",
		"statement -h": "Usage: reconciler statement", "scan --help": "Usage: reconciler scan",
		"key help": "Usage: reconciler key show", "key --help": "Usage: reconciler key show",
		"key show k --help": "Usage: reconciler key show",
	} {
		wantHelp(t, args, want)
	}
}
