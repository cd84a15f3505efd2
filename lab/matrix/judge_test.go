package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/lab/program"
	"payonce/lab/world"
)

// open is a matrix with the programs as they are.
func open(t *testing.T) (context.Context, *matrix) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	root, err := world.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "payonce-matrix-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	programs, err := world.Build(ctx, root, filepath.Join(dir, "bin"), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &matrix{settings: settings{Keep: filepath.Join(dir, "kept"), Limit: time.Minute}, out: t.Output()}
	if m.site, err = world.Open(ctx, world.Options{Programs: programs, Dir: dir,
		Say: func(line string) { m.say("%s", line) }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.site.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, m
}

// invariantsOf are what was breached, each once.
func invariantsOf(found []program.Violation) string {
	var names []string
	for _, v := range found {
		if !slices.Contains(names, v.Invariant) {
			names = append(names, v.Invariant)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// A whole cell: nothing is found. Then something is made wrong, behind everybody's back.
func TestCellFailsWhenTheWorldIsNotAsItShouldBe(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it builds the programs and plays a cell")
	}
	ctx, m := open(t)
	chosen, err := selected(cells(flows()), "silent/4/ack-lost")
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.openStage(ctx, chosen[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	watching, err := s.watch()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.play(); err != nil {
		t.Fatal(err)
	}
	if found := s.judge(watching); len(found) != 0 {
		t.Fatalf("%+v", found)
	}
	for _, wrong := range []want{{posts: [2]int{2, 2}}, {posts: [2]int{1, 1}, replayed: "true"}} {
		s.row.want, s.row.but = wrong, nil
		if got := invariantsOf(s.judge(watching)); got != caseKind {
			t.Errorf("an expectation that is not met is found as %q", got)
		}
	}
	if err := s.behindTheGuards("UPDATE payments SET amount_minor = amount_minor + 1"); err != nil {
		t.Fatal(err)
	}
	if got := invariantsOf(s.judge(watching)); !strings.Contains(got, "I4") {
		t.Errorf("books that differ from the ledger are found as %q", got)
	}
	// A run with the same seed has failed here before.
	before := filepath.Join(m.settings.keepIn("a/b"), "logs", "api-1.log")
	if err := errors.Join(os.MkdirAll(filepath.Dir(before), 0o755), os.WriteFile(before, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	kept, err := s.keep(m.settings.keepIn("a/b"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"database.json", "history.jsonl", "logs/api-1.log"} {
		if raw, err := os.ReadFile(filepath.Join(kept, name)); err != nil || len(raw) == 0 {
			t.Errorf("%s was not kept: %v", name, err)
		}
	}
}

// What never comes to an end is told as that, with the state, when the time of its cell is over.
func TestCellThatComesToNoEndIsABreachOfI2(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it builds the programs and plays a cell")
	}
	ctx, m := open(t)
	chosen, err := selected(cells(flows()), "silent/2a/kill")
	if err != nil {
		t.Fatal(err)
	}
	c := chosen[0]
	// There is no reconciler. The time of the play begins here: a machine with much to do takes longer to make a world.
	c.row.prepare = func(s *stage) error {
		var cancel context.CancelFunc
		s.ctx, cancel = context.WithTimeout(s.ctx, 3*time.Second)
		t.Cleanup(cancel)
		return nil
	}
	r := m.run(ctx, c)
	if got := invariantsOf(r.Violations); got != "I2" || !strings.Contains(r.Violations[0].Detail, "is in_progress") ||
		r.Kept == "" {
		t.Fatalf("%+v", r)
	}
}
