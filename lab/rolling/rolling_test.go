package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payonce/lab/history"
	"payonce/lab/payers"
)

// The short form of make rolling.
func TestAnUpdateLosesNoAnswer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it builds two versions, and updates one to the other")
	}
	dir := t.TempDir()
	environment := map[string]string{
		"QUICK": "1", "SEED": "1", "REPORT": filepath.Join(dir, "report.json"), "KEEP": filepath.Join(dir, "kept"),
	}
	var told, progress strings.Builder
	err := run(t.Context(), nil, func(name string) string { return environment[name] }, &told, &progress)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, progress.String(), told.String())
	}
}

func TestWhatAnUpdateCostsIsCounted(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	ask := func(api string, call, answered time.Duration, status int) history.Operation {
		return history.Operation{API: api, Key: "k", Call: call, Return: answered, Status: status}
	}
	lost := func(api string, call time.Duration, why string) history.Operation {
		return history.Operation{API: api, Key: "k", Call: call, Failure: why}
	}
	failing := ask("a", 60*ms, 70*ms, 503)
	failing.Body = []byte(`{"paymentMethod":"` + payers.NotCharged + `"}`)
	got := count([]history.Operation{
		ask("a", 1*ms, 10*ms, 201),
		lost("b", 20*ms, "EOF"), // with the process, which was killed
		lost("b", 90*ms, "EOF"), // it was back
		lost("a", 20*ms, "EOF"),
		lost("a", 30*ms, "dial tcp: connection refused"),
		ask("a", 20*ms, 30*ms, 503),
		failing,
		ask("a", 40*ms, 45*ms, 202), // no payment is done by it
		ask("b", 50*ms, 100*ms, 402),
		ask("b", 50*ms, 110*ms, 201),
	}, crash{"b", 80 * ms})
	if got.crashed != 1 || len(got.lost) != 2 || len(got.refused) != 1 || len(got.errors) != 1 || got.psp != 1 ||
		got.gap != 90*ms || got.answers["a"] != 4 || got.answers["b"] != 2 {
		t.Errorf("%+v", got)
	}
	var r report
	if got.tell(&r); len(r.Violations) != 4 {
		t.Errorf("the report has %v", r.Violations)
	}
}

func TestTheAddedMigrationComesAfterAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"00008_river_v8.sql", "00120_a.sql", "00121_b.sql"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if next, err := nextVersion(dir); next != 122 || err != nil {
		t.Errorf("it would have the number %d, %v", next, err)
	}
	if _, err := nextVersion(t.TempDir()); err == nil {
		t.Error("a tree without migrations is taken")
	}
}

func TestOldVersionThatThereIsNotIsRefused(t *testing.T) {
	t.Parallel()
	_, err := build(t.Context(), "no-such-ref", t.TempDir(), func(string) {})
	if err == nil || !strings.Contains(err.Error(), "OLD=no-such-ref") {
		t.Error(err)
	}
}
