package admin

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"payonce/internal/cli"
	"payonce/internal/tenants"
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
	if out := list(); !regexp.MustCompile(`(?m)^TENANT +PSP +PSP ACCOUNT +PER SECOND +BURST +EVENTS +CREATED\nacme +native +acme +50 +100 +none +\S+Z\nglobex +native +globex +50 +100 +none +\S+Z\n$`).MatchString(out) {
		t.Fatalf("listed are\n%s", out)
	}
	db := pgtest.Connect(t, url)
	for set, shown := range map[string]string{"tells = true": "endpoints", "feed = true, tells = true": "feed"} {
		pgtest.Exec(t, db, "UPDATE tenants SET "+set+" WHERE id = 'globex'")
		if out := list(); !regexp.MustCompile(`(?m)^globex .* ` + shown + ` +\S+Z$`).MatchString(out) {
			t.Errorf("with %s, listed are\n%s", set, out)
		}
		pgtest.Exec(t, db, "UPDATE tenants SET feed = false, tells = false")
	}
	for _, c := range []struct{ args, says, listed string }{
		{"--per-second 5", "acme may send 5 requests per second, and 10 at once.", "acme +native +acme +5 +10 "},
		{"--burst 7 --per-second 6", "acme may send 6 requests per second, and 7 at once.",
			"acme +native +acme +6 +7 "},
		{"--per-second 100000", "acme may send 100000 requests per second, and 100000 at once.",
			"acme +native +acme +100000 +100000 "},
		{"--per-second 9 --burst 1", "acme may send 9 requests per second, and 1 at once.",
			"acme +native +acme +9 +1 "},
	} {
		out, err := command(t, getenv, strings.Fields("tenants rate --tenant acme "+c.args)...)
		if err != nil || !strings.HasPrefix(out, c.says) {
			t.Fatalf("rate %s: %v %s", c.args, err, out)
		}
		if out := list(); !regexp.MustCompile(`(?m)^`+c.listed).MatchString(out) ||
			!regexp.MustCompile(`(?m)^globex +native +globex +50 +100 `).MatchString(out) {
			t.Fatalf("after rate %s\n%s", c.args, out)
		}
	}
	p, err := directory(t, url).Authenticate(t.Context(), secret)
	if err != nil || p.RequestsPerSecond != 9 || p.Burst != 1 {
		t.Fatalf("a server counts with %+v, %v", p, err)
	}
}

func TestTenantIsCreatedAtAProvider(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	native := environment("DATABASE_URL", url)
	stripe := environment("DATABASE_URL", url, "PSP", "stripe")
	for _, c := range []struct {
		getenv func(string) string
		args   string
		code   int
		says   string
	}{
		{native, "acme", 0, "acme is at provider native, with account acme. " +
			"It may send 50 requests per second, and 100 at once. Next: api keys create --tenant acme\n"},
		{native, "acme", 0, "acme is at provider native"}, // the same command may run again
		{native, "acme --per-second 7", 1, `tenant "acme" exists, at provider native with account acme`},
		{native, "--psp-account ACME-2 globex --per-second 7", 0,
			"globex is at provider native, with account ACME-2. It may send 7 requests per second, and 14 at once."},
		{native, "initech --psp stripe --psp-account acct_1 --burst 9", 0,
			"initech is at provider stripe, with account acct_1. It may send 50 requests per second, and 9 at once."},
		{native, "hooli --psp stripe --psp-account acct_1", 1, `account "acct_1" is in use by another tenant`},
		{native, "Hooli", 2, `tenant "Hooli" is malformed`},
		{native, "hooli --psp-account two,words", 2, `account "two,words" is malformed`},
		// Under its acct_…, each of its events would be one of another account: Stripe names none in them.
		{stripe, "hooli", 2, "name the tenant's account at Stripe by --psp-account: acct_… of a connected account, or " +
			"default, which is the account of the secret key itself"},
		{stripe, "vandelay --psp-account default", 0, "vandelay is at provider stripe, with account default."},
		{stripe, "hooli --psp-account acct_2", 0, "hooli is at provider stripe, with account acct_2."},
		{stripe, "umbrella --psp native", 0, "umbrella is at provider native, with account umbrella."},
	} {
		out, err := command(t, c.getenv, strings.Fields("tenants create "+c.args)...)
		if err != nil {
			out += err.Error()
		}
		if cli.Code(err) != c.code || !strings.HasPrefix(out, c.says) {
			t.Errorf("tenants create %s: %v %s", c.args, err, out)
		}
	}
	if help, err := command(t, native, "tenants", "--help"); err != nil || !strings.Contains(help, "default") {
		t.Errorf("the help does not name the account default: %v %s", err, help)
	}
	out, err := command(t, native, "tenants", "list")
	if err != nil || !regexp.MustCompile(`(?m)^globex +native +ACME-2 +7 +14 .*\nhooli +stripe +acct_2 +50 +100 .*\ninitech +stripe +acct_1 +50 +9 `).MatchString(out) {
		t.Fatalf("%v listed are\n%s", err, out)
	}
	secret, _ := created(t, stripe, "--tenant hooli")
	p, err := directory(t, url).Authenticate(t.Context(), secret)
	if err != nil || p.PSP != tenants.Stripe || p.PSPAccount != "acct_2" {
		t.Fatalf("the key speaks for %+v, %v", p, err)
	}
}

// The account of a tenant at Stripe cannot be guessed from its name.
func TestKeyMakesNoTenantAtStripe(t *testing.T) {
	t.Parallel()
	getenv := environment("DATABASE_URL", pgtest.NewURL(t), "PSP", "stripe")
	out, err := command(t, getenv, "keys", "create", "--tenant", "acme")
	if cli.Code(err) != 1 || out != "" ||
		err.Error() != `tenant "acme": no such tenant; first run api tenants create acme --psp-account acct_…` {
		t.Fatalf("%v %s", err, out)
	}
	if out, err := command(t, getenv, "keys", "create", "--operator"); err != nil {
		t.Fatalf("%v %s", err, out)
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
