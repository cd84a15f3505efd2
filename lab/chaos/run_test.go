package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"os"
)

// A whole run, as short as it can be: a few clients, and one API killed under them.
func TestShortRunHoldsAndReports(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: a chaos run")
	}
	dir := t.TempDir()
	environment := map[string]string{
		"SEED": "11", "DURATION": "6s", "CLIENTS": "3", "RATE": "60", "ONLY": "kill-api",
		"KEEP":   filepath.Join(dir, "kept"),
		"REPORT": filepath.Join(dir, "chaos.json"),
	}
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), nil, func(name string) string { return environment[name] }, &stdout, &stderr)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	raw, err := os.ReadFile(environment["REPORT"])
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Lab != "chaos" || got.Seed != 11 || got.Violations == nil || got.Counts["kill -9"]["api-1"]+
		got.Counts["kill -9"]["api-2"] == 0 || got.Books.Paid == 0 {
		t.Errorf("reports %s", raw)
	}
	if !strings.HasPrefix(stdout.String(), "chaos payonce seed=11 ") || strings.Count(stdout.String(), "\n") != 2 {
		t.Errorf("prints %s", stdout.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "kept", "history.jsonl")); err != nil {
		t.Error(err)
	}
}
