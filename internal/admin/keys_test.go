package admin

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/cli"
	"payonce/internal/tenants"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

func TestKeysWithoutASchemaPointToMigrate(t *testing.T) {
	t.Parallel()
	if _, err := command(t, environment("DATABASE_URL", emptyDatabase(t)), "keys", "list"); err == nil ||
		!strings.Contains(err.Error(), "run api migrate first") {
		t.Fatal(err)
	}
}

func TestSecretOfAKeyIsShownOnceAndWorks(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	getenv := environment("DATABASE_URL", url)
	full, fullID := created(t, getenv, "--tenant acme --label shop")
	reading, readingID := created(t, getenv, "--tenant acme --scopes payments:read")
	operator, operatorID := created(t, getenv, "--operator")
	if full == reading || full == operator {
		t.Fatal("two keys share a secret")
	}
	out, err := command(t, getenv, "keys", "list")
	if err != nil || secretForm.MatchString(out) {
		t.Fatalf("%v\n%s", err, out)
	}
	for id, want := range map[string]string{
		fullID: `acme +payments:read,payments:write +\S+ +never +shop`, readingID: `acme +payments:read +\S+ +never`,
		operatorID: `\(operator\) +ops:read,ops:resolve +\S+ +never`,
	} {
		if !regexp.MustCompile(`(?m)^` + id + ` +` + want + ` *$`).MatchString(out) {
			t.Errorf("no line %s for %s in\n%s", want, id, out)
		}
	}
	d := directory(t, url)
	for secret, may := range map[string]map[tenants.Permission]bool{
		full:     {tenants.PaymentsRead: true, tenants.PaymentsWrite: true, tenants.OpsRead: false},
		reading:  {tenants.PaymentsRead: true, tenants.PaymentsWrite: false},
		operator: {tenants.OpsRead: true, tenants.OpsResolve: true, tenants.PaymentsRead: false},
	} {
		p, err := d.Authenticate(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		for permission, want := range may {
			if p.May(permission) != want {
				t.Errorf("%+v may %s: %v", p, permission, p.May(permission))
			}
		}
	}
}

func TestExpiredKeyEndsAndAnOverlapIsKept(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	getenv := environment("DATABASE_URL", url)
	now, nowID := created(t, getenv, "--tenant acme")
	later, laterID := created(t, getenv, "--tenant acme")
	for args, want := range map[string]string{"--id " + nowID: "The key ends at ", "--id " + laterID +
		" --after 24h": "The key ends at "} {
		if out, err := command(t, getenv, strings.Fields("keys expire "+args)...); err != nil ||
			!strings.HasPrefix(out, want) {
			t.Fatalf("keys expire %s: %v %s", args, err, out)
		}
	}
	out, err := command(t, getenv, "keys", "list")
	if err != nil || !regexp.MustCompile(nowID+`.*Z \(over\)`).MatchString(out) ||
		regexp.MustCompile(laterID+`.*(over|never)`).MatchString(out) {
		t.Fatalf("%v\n%s", err, out)
	}
	d := directory(t, url)
	if _, err := d.Authenticate(t.Context(), now); !errors.Is(err, tenants.ErrUnauthenticated) {
		t.Fatalf("the key that has ended: %v", err)
	}
	if _, err := d.Authenticate(t.Context(), later); err != nil {
		t.Fatalf("the key that overlaps: %v", err)
	}
	if _, err := command(t, getenv, "keys", "expire", "--id", uuid.NewString()); !errors.Is(err, tenants.ErrNoAPIKey) {
		t.Fatalf("no such key: %v", err)
	}
}

func TestKeyThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	getenv := environment("DATABASE_URL", pgtest.NewURL(t))
	for args, want := range map[string]string{
		"--tenant ACME": "an id is a lower-case letter", "--tenant acme --scopes ops:read": "a tenant's key takes",
		"--operator --scopes payments:read": "an operator's ops:read",
		"--tenant acme --scopes ,":          "a tenant's key takes",
		"--tenant acme --scopes all":        "a tenant's key takes",
	} {
		if out, err := command(t, getenv, strings.Fields("keys create "+args)...); cli.Code(err) != 2 ||
			!strings.Contains(err.Error(), want) || secretForm.MatchString(out) {
			t.Errorf("keys create %s: %v %s", args, err, out)
		}
	}
}

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

// The arguments of a command line are separated by line ends here. Nothing that is left over is silently dropped, and a
// list of scopes holds what was written, without the space around it.
func FuzzKeysArgs(f *testing.F) {
	f.Add("--tenant\nacme\n--scopes\npayments:read, payments:write")
	f.Add("--operator\n--scopes=")
	f.Add("--after\n24h\nX")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		flags := cli.NewFlags("api keys")
		scopes, operator, after := flags.String("scopes", "", ""), flags.Bool("operator", false, ""),
			flags.Duration("after", 0, "")
		flags.String("tenant", "", "")
		if err := cli.Parse(flags, args, 0); err != nil {
			if !strings.HasSuffix(err.Error(), "; see api keys --help") {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if flags.NArg() > 0 {
			t.Fatalf("%q is taken, and %q are dropped", args, flags.Args())
		}
		if *after != 0 && !strings.Contains(line, "after") {
			t.Fatalf("%q ends after %s", args, *after)
		}
		permissions := permissionsOf(*scopes, *operator)
		if *scopes == "" {
			ours := []tenants.Permission{tenants.PaymentsRead, tenants.PaymentsWrite}
			if *operator {
				ours = []tenants.Permission{tenants.OpsRead, tenants.OpsResolve}
			}
			if !slices.Equal(permissions, ours) {
				t.Fatalf("by default %q", permissions)
			}
			return
		}
		if len(permissions) != strings.Count(*scopes, ",")+1 {
			t.Fatalf("%q are %q", *scopes, permissions)
		}
		for _, p := range permissions {
			if !strings.Contains(*scopes, string(p)) || strings.TrimSpace(string(p)) != string(p) {
				t.Fatalf("%q of %q", p, *scopes)
			}
		}
	})
}
