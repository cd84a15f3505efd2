package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"payonce/internal/cli"
	"payonce/test/pgtest"
)

func TestRateOfATenantIsListedSetAndHeeded(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	getenv := environment("DATABASE_URL", url)
	secret, _ := created(t, getenv, "--tenant acme")
	created(t, getenv, "--tenant globex")
	list := func() string {
		t.Helper()
		out, err := command(t, getenv, "tenants", "list")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := list(); !regexp.MustCompile(`(?m)^TENANT +PSP ACCOUNT +PER SECOND +BURST +CREATED\nacme +acme +50 +100 +\S+Z\nglobex +globex +50 +100 +\S+Z\n$`).MatchString(out) {
		t.Fatalf("listed are\n%s", out)
	}
	for _, c := range []struct{ args, says, listed string }{
		{"--per-second 5", "acme may send 5 requests per second, and 10 at once.", "acme +acme +5 +10 "},
		{"--burst 7 --per-second 6", "acme may send 6 requests per second, and 7 at once.", "acme +acme +6 +7 "},
		{"--per-second 100000", "acme may send 100000 requests per second, and 100000 at once.",
			"acme +acme +100000 +100000 "},
		{"--per-second 9 --burst 1", "acme may send 9 requests per second, and 1 at once.", "acme +acme +9 +1 "},
	} {
		out, err := command(t, getenv, strings.Fields("tenants rate --tenant acme "+c.args)...)
		if err != nil || !strings.HasPrefix(out, c.says) {
			t.Fatalf("rate %s: %v %s", c.args, err, out)
		}
		if out := list(); !regexp.MustCompile(`(?m)^`+c.listed).MatchString(out) ||
			!regexp.MustCompile(`(?m)^globex +globex +50 +100 `).MatchString(out) {
			t.Fatalf("after rate %s\n%s", c.args, out)
		}
	}
	p, err := directory(t, url).Authenticate(t.Context(), secret)
	if err != nil || p.RequestsPerSecond != 9 || p.Burst != 1 {
		t.Fatalf("a server counts with %+v, %v", p, err)
	}
}

func TestRateOfATenantThatThereIsNot(t *testing.T) {
	t.Parallel()
	getenv := environment("DATABASE_URL", pgtest.NewURL(t))
	out, err := command(t, getenv, "tenants", "rate", "--tenant", "acme", "--per-second", "5")
	if cli.Code(err) != 1 || err.Error() != `tenant "acme": no such tenant; api tenants list shows them` || out != "" {
		t.Fatalf("%v %s", err, out)
	}
}

// A person reads what these commands say: it is no log.
func TestCommandsForPeopleWriteNoLogLines(t *testing.T) {
	t.Parallel()
	getenv := environment("DATABASE_URL", emptyDatabase(t))
	for _, c := range []struct{ args, says string }{
		{"roles", "The roles exist; passwords set: 0. Next: api migrate, as payonce_migrator.\n"},
		{"migrate", "The schema is at version "},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), strings.Fields(c.args), getenv, &stdout, &stderr)
		if err != nil || !strings.HasPrefix(stdout.String(), c.says) || strings.Contains(stderr.String(), "{") {
			t.Errorf("api %s: %v\n%s\n%s", c.args, err, stdout.String(), stderr.String())
		}
	}
}
