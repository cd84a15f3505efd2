package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payonce/internal/problem"
	"payonce/lab/history"
	"payonce/lab/payers"
	"payonce/lab/world"
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
		return history.Operation{API: api, Key: "k", Call: call, Failed: call + 5*ms, Failure: why}
	}
	refuse := func(status int, code problem.Code, method string) history.Operation {
		o := ask("a", 60*ms, 70*ms, status)
		o.Body, o.Answer = fmt.Appendf(nil, `{"paymentMethod":%q}`, method), fmt.Appendf(nil, `{"code":%q}`, code)
		return o
	}
	got := count([]history.Operation{
		ask("a", 1*ms, 10*ms, 201),
		lost("b", 20*ms, "EOF"),                          // with the process, which was killed
		lost("b", 60*ms, "dial tcp: connection refused"), // it was not back
		lost("b", 10*ms, "EOF"),                          // it was not killed yet
		lost("b", 90*ms, "EOF"),                          // it was back
		lost("a", 20*ms, "EOF"),
		lost("a", 30*ms, "dial tcp: connection refused"),
		refuse(503, problem.PSPUnavailable, payers.NotCharged), // as was asked for
		refuse(409, problem.IdempotencyKeyInProgress, "pm_ok"),
		refuse(503, problem.PSPUnavailable, "pm_ok"),
		refuse(503, problem.IdempotencyStoreUnavailable, payers.NotCharged),
		refuse(500, problem.InternalError, payers.NotCharged),
		refuse(409, problem.IdempotencyKeyHeld, "pm_ok"),
		refuse(401, problem.Unauthenticated, "pm_ok"),
		refuse(200, "", "pm_ok"),
		ask("a", 40*ms, 45*ms, 202), // no payment is done by it
		ask("b", 50*ms, 100*ms, 402),
		ask("b", 50*ms, 110*ms, 201),
	}, crash{"b", 20 * ms, 80 * ms})
	if got.crashed != 2 || len(got.lost) != 3 || len(got.refused) != 1 || len(got.wrong) != 6 || got.psp != 1 ||
		got.gap != 90*ms || got.answers["a"] != 10 || got.answers["b"] != 2 {
		t.Errorf("%+v", got)
	}
	var r report
	if got.tell(&r); len(r.Violations) != 10 {
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

// On the commit of a release, the last release is the one before.
func TestOldVersionIsNotTheTreeItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	commit := func(tag, text string) {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", "file")
		git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", text)
		git("tag", tag)
	}
	git("init", "-q")
	const same = "this tree without two migrations"
	commit("v1.9.0", "a")
	if newest := newestRelease(t.Context(), dir); newest != "" || nameOf(t.Context(), dir, newest) != same {
		t.Errorf("before the first release: %q", newest)
	}
	commit("other", "b")
	commit("v1.10.0-rc.1", "c")
	commit("v1.10.0", "d")
	commit("v2.0.0", "of another branch")
	git("reset", "-q", "--hard", "HEAD^")
	commit("v1.11.0", "e")
	if newest := newestRelease(t.Context(), dir); newest != "v1.10.0" || nameOf(t.Context(), dir, newest) != newest {
		t.Errorf("at v1.11.0: %q", newest)
	}
	if name := nameOf(t.Context(), dir, "v1.11.0"); name != "v1.11.0, which is "+same {
		t.Errorf("the tree itself is called %q", name)
	}
}

func TestProcessThatDoesNotEndInGoodOrderIsReported(t *testing.T) {
	t.Parallel()
	ended := &world.Process{Name: "api-old-1"}
	s := &stage{report: &report{}, running: []*world.Process{ended}}
	if s.stop(ended); len(s.report.Violations) != 1 || len(s.running) != 0 {
		t.Errorf("the report has %v, and %d run", s.report.Violations, len(s.running))
	}
}
