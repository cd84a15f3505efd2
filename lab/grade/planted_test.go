package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"payonce/lab/grade/judge"
	"payonce/lab/world"
)

// planted is a server with a bug: which level finds it, and which invariant breaks there.
type planted struct {
	name  string
	level int
	finds judge.Invariant
	edits []edit // of the last step of course/steps; none: BUG=name of testdata/server.py
}

type edit struct{ file, old, by string }

func inGo() []planted {
	return []planted{
		{"no generation in the PSP's key", 1, judge.Forgets, []edit{{"psp.go", "p.generation == 1", "p.generation > 0"}}},
		{"a retry gets other bytes", 1, judge.Bytes, []edit{{"pay.go", "\t\treturn r.answer\n",
			"\t\tr.answer.body = append(r.answer.body, ' ')\n\t\treturn r.answer\n"}}},
		{"a decline is not remembered", 1, judge.Ends, []edit{{"pay.go", "case failure == nil:",
			"case failure == nil && c.Status == declined:\n\t\theld, err = s.store.apply(ctx, p, failedRetryable, charge{}, answer{}, s.retention)\n\tcase failure == nil:"}}},
		{"no fingerprint", 3, judge.Refuses, []edit{{"pay.go", "!bytes.Equal(r.fingerprint, p.fingerprint()):",
			"len(p.fingerprint()) == 0:"}}},
		{"another key for the PSP each time", 4, judge.Once, []edit{{"psp.go", "\treturn fmt.Sprintf(\"%s.g%d\", p.key, p.generation)",
			"\treturn fmt.Sprintf(\"%s.a%d\", p.key, p.attempt)"}, {"psp.go", "p.generation == 1", "p.attempt == 0"}}},
		{"unknown keys expire", 4, judge.Once, []edit{{"store.go", "status IN ('completed', 'failed_retryable') AND locked_until",
			"status IN ('completed', 'failed_retryable', 'unknown') AND locked_until"}}},
		{"what is lost is called a failure", 5, judge.Once, []edit{{"pay.go", "errors.Is(failure, errNotExecuted)",
			"failure != nil || errors.Is(failure, errNotExecuted)"}}},
		{"a lease never ends", 6, judge.Ends, []edit{{"store.go", "status IN ('in_progress', 'unknown') AND locked_until",
			"status IN ('unknown') AND locked_until"}}},
		{"no fence", 7, judge.Stays, []edit{{"store.go", "AND attempt = $6 AND status NOT IN ('completed', 'expired')",
			"AND attempt >= $6 - 99"}}},
		{"any webhook is believed", 9, judge.Truth, []edit{
			{"reconcile.go", "err != nil || !s.signed(r.Header, body)", "err != nil"},
			{"reconcile.go", "if err := s.store.doubt(r.Context(), event.Data.Account, key); err != nil {",
				"found, err := s.store.find(r.Context(), event.Data.Account, key)\n\tif err == nil && event.Data.Status == succeeded {\n\t\t" +
					"_, err = s.apply(r.Context(), found.payment, event.Data, nil)\n\t}\n\tif err != nil && !errors.Is(err, pgx.ErrNoRows) {"},
			{"reconcile.go", "\t\"encoding/json\"\n", "\t\"encoding/json\"\n\t\"errors\"\n"},
			{"reconcile.go", "\t\"time\"\n)", "\t\"time\"\n\n\t\"github.com/jackc/pgx/v5\"\n)"},
		}},
		{"one tenant for all", 10, judge.Truth, []edit{{"store.go", "FROM payments WHERE tenant = $1 AND key = $2",
			"FROM payments WHERE $1 <> '' AND key = $2"}, {"schema.sql", "ON payments (tenant, key) WHERE", "ON payments (key) WHERE"}}},
	}
}

func inPython() []planted {
	return []planted{
		{"memory", 6, judge.Once, nil},
		{"check-then-act", 3, judge.Refuses, nil},
		{"other-payload", 3, judge.Refuses, nil},
		{"fresh-psp-key", 3, judge.Once, nil},
		{"blind-retry", 5, judge.Once, nil},
		{"stuck", 4, judge.Ends, nil},
		{"timeout-is-failure", 5, judge.Once, nil},
		{"timeout-is-decline", 4, judge.Truth, nil},
		{"timeout-is-paid", 4, judge.Truth, nil},
	}
}

// Each wrong server is found at the level that is about its bug, and the history that shows it is a small one.
// PLANTED=all tries all of them; otherwise some are drawn, and SEED draws the same ones again.
func TestWrongServersAreFound(t *testing.T) {
	skipShort(t)
	t.Parallel()
	all := append(inGo(), inPython()...)
	if os.Getenv("PLANTED") != "all" {
		const some = 5
		seed := seedOf(t)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:some]
	}
	for _, b := range all {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			g := graded{target: stepProgram(t, "07", b.edits...), level: strconv.Itoa(b.level)}
			if b.edits == nil {
				g = python(t, b.name)
				g.level = strconv.Itoa(b.level)
			}
			r := g.run(t)
			n, shown := r.Levels[0].Of[b.finds]
			if !shown || n.Held == n.Shown {
				t.Fatalf("level %d has not found it: %s: %+v", b.level, b.finds, r.Levels[0].Of)
			}
			if r.First == nil || r.First.HTML == "" {
				t.Fatal("nothing was drawn")
			}
			if c := r.First.run.Case; len(c.Intents) > 2 || len(c.Steps) > 14 { //nolint:mnd // a screen
				t.Errorf("the history is not small: %d payments, %d steps", len(c.Intents), len(c.Steps))
			}
		})
	}
}

// stepProgram builds one step of the course, changed.
func stepProgram(t *testing.T, step string, edits ...edit) string {
	t.Helper()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace, changed := map[string]string{}, map[string]string{}
	for i, e := range edits {
		path := filepath.Join(root, "course", "steps", step, e.file)
		text, ok := changed[path]
		if !ok {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		if !strings.Contains(text, e.old) {
			t.Fatalf("edit %d: %s has no %q", i, e.file, e.old)
		}
		changed[path] = strings.ReplaceAll(text, e.old, e.by)
		replace[path] = filepath.Join(dir, fmt.Sprintf("%s-%s", step, e.file))
		if err := os.WriteFile(replace[path], []byte(changed[path]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "server")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", file, "-o", program, "./steps/"+step)
	build.Dir = filepath.Join(root, "course")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build step %s: %v\n%s", step, err, out)
	}
	return program
}

func python(t *testing.T, bug string) graded {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	return graded{target: "testdata/server.py", profile: "plain", env: map[string]string{"BUG": bug}}
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		seed = uint64(rand.Uint32())
	}
	t.Logf("SEED=%d", seed)
	return seed
}

// graded is a server to be graded in a test.
type graded struct {
	target, profile, level string
	env                    map[string]string
	stop                   bool
}

func (g graded) run(t *testing.T) *report {
	t.Helper()
	r, err := g.try(t)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (g graded) try(t *testing.T) (*report, error) {
	t.Helper()
	if g.profile == "" {
		g.profile = "payonce"
	}
	args := []string{"--profile", g.profile, "--level", g.level, "--out", t.TempDir(), g.target}
	s, err := readSettings(args, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range g.env {
		if s.profile.Env == nil {
			s.profile.Env = map[string]string{}
		}
		s.profile.Env[name] = value
	}
	var said strings.Builder
	r, err := grade(context.WithoutCancel(t.Context()), s, &said)
	t.Log(said.String())
	return r, err
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many servers")
	}
}
