package main

import (
	"bytes"
	"strings"
	"testing"

	"payonce/internal/cli"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// command runs the program with these settings, as NAME=value, and no others.
func command(t *testing.T, settings []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	env := map[string]string{}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		env[name] = value
	}
	var out, errs bytes.Buffer
	err = run(t.Context(), args, func(name string) string { return env[name] }, &out, &errs)
	return out.String(), errs.String(), err
}

// What is wrong with a command line is said before a setting is asked for: there are none here.
func TestCommandLineThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"": "name a command: run", "frobnicate": `command "frobnicate" is not known`,
		"--frob":        `command "--frob" is not known`,
		"run now":       `argument "now" is not known; see reconciler run --help`,
		"run --fast":    "flag provided but not defined: -fast",
		"healthcheck x": `argument "x" is not known`,
	} {
		wantUsageError(t, args, want)
	}
}

func wantUsageError(t *testing.T, args, want string) {
	t.Helper()
	out, _, err := command(t, nil, strings.Fields(args)...)
	if cli.Code(err) != 2 || !strings.Contains(err.Error(), want) || out != "" {
		t.Errorf("reconciler %s: exit code %d, %v\n%s", args, cli.Code(err), err, out)
	}
}

func TestFailureIsNoUsageError(t *testing.T) {
	t.Parallel()
	wantNoDatabase(t, "run", 1)
}

func wantNoDatabase(t *testing.T, args string, code int) {
	t.Helper()
	if _, _, err := command(t, nil, strings.Fields(args)...); cli.Code(err) != code ||
		!strings.HasPrefix(err.Error(), "DATABASE_URL is not set") {
		t.Errorf("reconciler %s without a database: exit code %d, %v", args, cli.Code(err), err)
	}
}

func TestHelpAndVersionNeedNoSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--help": "reconciler run ", "help": "reconciler run ", "run --help": "Usage: reconciler run",
		"healthcheck --help": "Usage: reconciler healthcheck", "--version": "reconciler ", "version": "reconciler ",
	} {
		wantHelp(t, args, want)
	}
}

func wantHelp(t *testing.T, args, want string) {
	t.Helper()
	out, _, err := command(t, []string{"LEASE=garbage"}, strings.Fields(args)...)
	if err != nil || !strings.HasPrefix(strings.TrimPrefix(out, "Usage:\n  "), want) &&
		!strings.Contains(out, "\n  "+want) {
		t.Errorf("reconciler %s: %v\n%s", args, err, out)
	}
}
