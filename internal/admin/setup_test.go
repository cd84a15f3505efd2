package admin

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/tenants"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const patience = time.Minute

// environment is a getenv that knows these variables only.
func environment(pairs ...string) func(string) string {
	env := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return env[name] }
}

// run runs the command that args begin with, as the program does.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	switch command, args := args[0], args[1:]; command {
	case "roles":
		return Roles(ctx, args, getenv, stdout, stderr)
	case "migrate":
		return Migrate(ctx, args, getenv, stdout, stderr)
	case "installation":
		return Installation(ctx, args, getenv, stdout)
	case "keys":
		return Keys(ctx, args, getenv, stdout)
	default:
		return Tenants(ctx, args, getenv, stdout)
	}
}

// command runs a command and reads what it writes.
func command(t *testing.T, getenv func(string) string, args ...string) (stdout string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	err = run(ctx, args, getenv, &out, &errs)
	return out.String(), err
}

// emptyDatabase is one without a schema.
func emptyDatabase(t *testing.T) (url string) {
	t.Helper()
	server := pgtest.Server(t)
	admin := pgtest.Connect(t, server.URL("postgres"))
	name := "empty_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	pgtest.Exec(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return server.URL(name)
}

var (
	secretForm = regexp.MustCompile(`payonce_[0-9a-f]{64}`)
	idForm     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
)

// created makes a key by the command and gives its secret and id.
func created(t *testing.T, getenv func(string) string, args string) (secret, id string) {
	t.Helper()
	out, err := command(t, getenv, strings.Fields("keys create "+args)...)
	if err != nil {
		t.Fatalf("keys create %s: %v", args, err)
	}
	secret, id = secretForm.FindString(out), idForm.FindString(out)
	if secret == "" || id == "" || !strings.HasPrefix(out, secret+"\n") {
		t.Fatalf("keys create %s says %s", args, out)
	}
	return secret, id
}

// directory authenticates as a server does that starts now.
func directory(t *testing.T, url string) *tenants.Directory {
	t.Helper()
	return tenants.NewDirectory(pgtest.Open(t, url, pgtest.Limits()), time.Now)
}
