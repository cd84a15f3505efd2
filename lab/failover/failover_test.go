package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/internal/postgres"
)

// One case as a test, the one that matters most. make failover runs the others.
func TestNothingAcknowledgedIsLostWithThePrimary(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: a failover")
	}
	dir := t.TempDir()
	environment := map[string]string{
		"ONLY": "sync", "QUICK": "1", "SEED": "1", "REPORT": filepath.Join(dir, "report.json"),
		"KEEP": filepath.Join(dir, "kept"),
	}
	var told, progress strings.Builder
	err := run(t.Context(), nil, func(name string) string { return environment[name] }, &told, &progress)
	raw, readErr := os.ReadFile(environment["REPORT"])
	if readErr != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Cases) != 1 {
		t.Fatalf("%v: %s", err, raw)
	}
	if r.Cases[0].Skipped != "" {
		t.Skip(r.Cases[0].Skipped)
	}
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, progress.String(), told.String())
	}
}

func TestProgramsKnowBothServersAndAskForTheOneThatWrites(t *testing.T) {
	t.Parallel()
	got, err := either(postgres.API, "postgres://payonce@/world_1?host=%2Fa&port=5432&sslmode=disable",
		"postgres://payonce@/world_1?host=%2Fb%20c&port=5433&sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(got)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Get("host") != "/a,/b c" || q.Get("port") != "5432,5433" || q.Get("target_session_attrs") != "read-write" ||
		u.Path != "/world_1" || u.User.String() != "payonce_api" {
		t.Fatal(got)
	}
}

func TestCaseThatThereIsNotIsRefused(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"ONLY": "sync, asink"}
	_, err := loadSettings(func(name string) string { return environment[name] })
	if err == nil || !strings.Contains(err.Error(), "asink") {
		t.Fatal(err)
	}
}
