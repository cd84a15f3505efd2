package main

import (
	"regexp"
	"strings"
	"testing"

	"payonce/internal/cli"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// The key may be there, and its secret was shown to nobody. What is said has to be enough to be rid of it.
func TestKeyInDoubtIsNotShownAndCanBeEnded(t *testing.T) {
	t.Parallel()
	proxy := pgproxy.Start(t, pgtest.NewURL(t))
	getenv := environment("DATABASE_URL", proxy.URL())
	proxy.On("commit", pgproxy.DropAcknowledgement)
	proxy.OnNext(3, "ListKeys", pgproxy.CutBefore)
	out, err := command(t, getenv, "keys", "create", "--operator")
	if cli.Code(err) != 1 || out != "" {
		t.Fatalf("exit code %d, %v\n%s", cli.Code(err), err, out)
	}
	advice := regexp.MustCompile(`end it by api (keys expire --id \S+), which`).FindStringSubmatch(err.Error())
	if advice == nil {
		t.Fatalf("no advice in %q", err)
	}
	out, err = command(t, getenv, strings.Fields(advice[1])...)
	if err != nil || !strings.HasPrefix(out, "The key ends at ") {
		t.Fatalf("%v %s", err, out)
	}
	out, err = command(t, getenv, "keys", "list")
	if err != nil || !strings.Contains(out, "(over)") {
		t.Fatalf("%v %s", err, out)
	}
}
