package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payonce/lab/grade/judge"
	"payonce/lab/world"
)

// What is wrong with each step is found where the course says so. The last one has full marks.
func TestStepsOfTheCourse(t *testing.T) {
	skipShort(t)
	t.Parallel()
	for step, wrong := range map[string]struct {
		level string
		finds judge.Invariant
	}{
		"01": {"2", judge.Once},
		"02": {"4", judge.Once},
		"03": {"6", judge.Ends},
		"04": {"7", judge.Stays},
		"05": {"4", judge.Found},
		"06": {"1", judge.Forgets},
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := graded{target: stepProgram(t, step), level: wrong.level}.run(t)
			if n, shown := r.Levels[0].Of[wrong.finds]; !shown || n.Held == n.Shown {
				t.Errorf("level %s has not found it: %s: %+v", wrong.level, wrong.finds, r.Levels[0].Of)
			}
		})
	}
	t.Run("07", func(t *testing.T) {
		t.Parallel()
		fullMarks(t, graded{target: stepProgram(t, "07")})
	})
}

func TestPayonceHasFullMarks(t *testing.T) {
	skipShort(t)
	t.Parallel()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := world.Build(t.Context(), root, dir, nil); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "grade-payonce")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", target, "./payonce")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the starter: %v\n%s", err, out)
	}
	fullMarks(t, graded{target: target})
}

// A right server in another language, of which not everything can be shown.
func TestServerInPython(t *testing.T) {
	skipShort(t)
	t.Parallel()
	r := fullMarks(t, python(t, ""))
	var not []int
	for _, l := range r.Levels {
		if len(l.Of) == 0 {
			not = append(not, l.Level)
		}
	}
	if !slices.Equal(not, []int{8, 9, 10}) {
		t.Errorf("levels that were not shown: %v", not)
	}
	var table strings.Builder
	if err := r.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"crash of the database         not shown", "never connected to DATABASE_URL",
		"has no webhooks"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, table.String())
		}
	}
}

func fullMarks(t *testing.T, g graded) *report {
	t.Helper()
	r := g.run(t)
	if r.Marks < r.Of || r.Of == 0 {
		var table strings.Builder
		_ = r.writeTable(&table)
		t.Fatalf("%d of %d marks\n%s", r.Marks, r.Of, table.String())
	}
	return r
}

func TestServerThatCannotBeGraded(t *testing.T) {
	skipShort(t)
	t.Parallel()
	for bug, want := range map[string]string{
		"will-not-start": "server 1 ended before it was ready; its last words:\nthe licence has run out",
		"nonsense":       "has no meaning there: status 418",
		"never-asks":     "does the server use PSP_URL?",
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			g := python(t, bug)
			g.level = "1"
			if _, err := g.try(t); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

func TestWrongCommandLine(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "no TARGET"},
		{[]string{"--level", "11", "x"}, `level "11" is not one from 1 to 10`},
		{[]string{"--level", "5-3", "x"}, `level "5-3" is not one`},
		{[]string{"--level", "x", "x"}, `level "x" is not one`},
		{[]string{"--profile", "nobody", "x"}, "neither payonce nor plain"},
		{[]string{"--colour", "x"}, "flag provided but not defined"},
		{[]string{"x", "y"}, `argument "y" is not known`},
	} {
		if _, err := readSettings(c.args, none); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	s, err := readSettings([]string{"--level", "1-3,7", "x"}, none)
	if err != nil || !slices.Equal(s.levels, []int{1, 2, 3, 7}) || s.seed == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	for target, want := range map[string]string{
		"/no/such/program":   "TARGET cannot be run",
		"http://127.0.0.1:1": "needs the mock PSP",
	} {
		s := settings{target: target, psp: "http://127.0.0.1:1", out: t.TempDir(), levels: []int{1}}
		if _, err := grade(t.Context(), s, t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}
