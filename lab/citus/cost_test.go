package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payonce/demo/embeddedpg"
	"payonce/lab/world"
)

func TestFirstHalvesOfTwoPhaseCommitsAreCounted(t *testing.T) {
	t.Parallel()
	server, err := embeddedpg.Start(t.Context(), embeddedpg.Options{DataDir: t.TempDir(),
		Settings: map[string]string{"max_prepared_transactions": "10", "synchronous_commit": "on"}})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Stop(context.Background()), os.RemoveAll(server.DataDir())); err != nil {
			t.Error(err)
		}
	})
	run := func(statements ...string) {
		if err := execute(t.Context(), server, statements...); err != nil {
			t.Fatal(err)
		}
	}
	if err := execute(t.Context(), server, "CREATE EXTENSION pg_walinspect"); err != nil {
		t.Skip(err) // it came with PostgreSQL 15
	}
	var position string
	if err := ask(t.Context(), server, &position, mark); err != nil {
		t.Fatal(err)
	}
	counted := func() int64 {
		n, err := preparedSince(t.Context(), server, position)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := counted(); n != 0 {
		t.Errorf("%d, before anything was written", n)
	}
	run("CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)")
	if n := counted(); n != 0 {
		t.Errorf("%d, want none of an ordinary transaction", n)
	}
	run("BEGIN", "INSERT INTO t VALUES (2)", "PREPARE TRANSACTION 'a'", "COMMIT PREPARED 'a'",
		"BEGIN", "INSERT INTO t VALUES (3)", "PREPARE TRANSACTION 'b'", "ROLLBACK PREPARED 'b'")
	if n := counted(); n != 2 {
		t.Errorf("%d, want 2", n)
	}
}

func TestLogsAreKeptIfAnAnswerWasNot201(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	api := filepath.Join(dir, "world_1", "api-1.log")
	for path, text := range map[string]string{
		api: `{"level":"INFO","msg":"step"}` + "\n" + `{"level":"ERROR","msg":"outcome not written"}` + "\n",
		filepath.Join(dir, "postgres", "worker-1", "pg15.log"):      "ERROR: canary\n",
		filepath.Join(dir, "postgres", "worker-1", "pg15", "table"): "data",
	} {
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &side{name: "several", dir: dir, api: &world.Process{Log: api}, quotes: []string{"09:00:00.000 status 202"}}
	var said strings.Builder
	if err := s.keepLogs(to, func(line string) { said.WriteString(line) }); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(to, "several", name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	const want = "09:00:00.000 status 202\n" + `{"level":"ERROR","msg":"outcome not written"}` + "\n"
	if got := read("problems.txt"); got != want || !strings.Contains(said.String(), strings.TrimSpace(want)) {
		t.Errorf("%q, said %q", got, said.String())
	}
	if got := read("postgres-worker-1-pg15.log"); got != "ERROR: canary\n" {
		t.Errorf("the server's log is %q", got)
	}
	read("world_1-api-1.log")
	if entries, _ := os.ReadDir(filepath.Join(to, "several")); len(entries) != 3 {
		t.Errorf("kept are %v", entries)
	}
	s.quotes = nil
	if err := s.keepLogs(to, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "several")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("logs of a run before are taken for this one's: %v", err)
	}
}

func TestEachBarAndEachOddAnswerFailsTheRun(t *testing.T) {
	t.Parallel()
	sides := func(cpu, p50, prepared float64, answers map[int]int64) (one, many *side) {
		one, many = &side{name: "one server", answers: map[int]int64{201: 9}}, &side{name: "several", answers: answers}
		for range costCases() {
			one.measured = append(one.measured, measured{total: []float64{1}, p50: []float64{1}})
			many.measured = append(many.measured, measured{total: []float64{cpu}, p50: []float64{p50},
				prepared: []float64{prepared}})
		}
		return one, many
	}
	good := map[int]int64{201: 9}
	for name, c := range map[string]struct {
		cpu, p50, prepared float64
		answers            map[int]int64
		want               error
	}{
		"all is met": {2.8, 2.5, 0, good, nil},
		"CPU":        {2.9, 2.5, 0, good, errMissed},
		"p50":        {2.8, 2.6, 0, good, errMissed},
		"two-phase":  {2.8, 2.5, 0.5, good, errMissed},
		"a 202":      {2.8, 2.5, 0, map[int]int64{201: 9, 202: 1}, errMissed},
	} {
		var text strings.Builder
		one, many := sides(c.cpu, c.p50, c.prepared, c.answers)
		if err := tellCost(&text, one, many); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v\n%s", name, err, c.want, text.String())
		}
	}
}
