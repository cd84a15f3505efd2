package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"payonce/lab/grade/judge"
	"payonce/lab/grade/profile"
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

// inGo reads testdata/planted.txt.
func inGo(t *testing.T) []planted {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "planted.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all []planted
	file := ""
	for line := range strings.SplitSeq(string(raw), "\n") {
		heading, isHeading := strings.CutPrefix(line, "== ")
		if isHeading {
			parts := strings.Split(heading, " | ")
			level, err := strconv.Atoi(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, planted{name: parts[0], level: level, finds: judge.Invariant(parts[2])})
			continue
		}
		if len(all) == 0 || line == "" {
			continue
		}
		bug := &all[len(all)-1]
		n := len(bug.edits)
		switch {
		case line[0] == '-' && (n == 0 || bug.edits[n-1].by != "" || bug.edits[n-1].file != file):
			bug.edits = append(bug.edits, edit{file: file, old: line[1:] + "\n"})
		case line[0] == '-':
			bug.edits[n-1].old += line[1:] + "\n"
		case line[0] == '+':
			bug.edits[n-1].by += line[1:] + "\n"
		default:
			file = line
		}
	}
	return all
}

func inPython() []planted {
	return []planted{
		{"memory", 3, judge.Refuses, nil},
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
	all := append(inGo(t), inPython()...)
	if os.Getenv("PLANTED") != "all" {
		const some = 3
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
			g.smallest = true
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
	file, err := world.WriteAdded(dir, replace)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "server")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", file, "-o", program,
		"./steps/"+step)
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
	return graded{target: "testdata/server.py", profile: "plain",
		env: map[string]string{"BUG": bug, "STATE": t.TempDir()}}
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
	psp                    string
	smallest               bool // search for the smallest history, which takes up to 45 s
	patience               profile.Duration
	env                    map[string]string
	exercise               *exercise
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
	if g.psp != "" {
		args = append(args, "--psp", g.psp)
	}
	s, err := readSettings(args, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	s.exercise = g.exercise
	for name, value := range g.env {
		if s.profile.Env == nil {
			s.profile.Env = map[string]string{}
		}
		s.profile.Env[name] = value
	}
	s.marksAlone = !g.smallest
	// Much else may run on the machine.
	s.profile.EndsWithin = max(s.profile.EndsWithin, g.patience)
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
