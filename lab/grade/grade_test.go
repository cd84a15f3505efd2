package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payonce/lab/grade/judge"
	"payonce/lab/grade/profile"
	"payonce/lab/grade/stand"
	"payonce/test/httpproxy"
)

// What is wrong with each step is found by the check of the lesson that is about it, and the next step is right there.
// The last one has full marks.
func TestStepsOfTheCourse(t *testing.T) {
	skipShort(t)
	t.Parallel()
	for _, e := range exercises() {
		for _, right := range []bool{false, true} {
			step := e.step
			if right {
				step++
			}
			t.Run(fmt.Sprintf("lesson %d, step %02d", e.lesson, step), func(t *testing.T) {
				t.Parallel()
				target := stepProgram(t, fmt.Sprintf("%02d", step))
				// Beside other tests, a fault that is a race may not be met the first time.
				for again := range 2 {
					r := graded{target: target, level: strconv.Itoa(e.level), exercise: &e}.run(t)
					var said strings.Builder
					err := e.conclude(r, &said)
					n := r.Levels[0].Of[e.shows]
					switch {
					case (n.Held == n.Shown) == right && (err == nil) == right:
						return
					case right || again == 1:
						t.Errorf("%s: %+v, %v\n%s", e.shows, n, err, said.String())
						return
					}
				}
			})
		}
	}
	t.Run("07", func(t *testing.T) {
		t.Parallel()
		fullMarks(t, graded{target: stepProgram(t, "07")})
	})
}

// check is one cell of the table.
type check struct {
	level     int
	invariant judge.Invariant
}

func (c check) holds(r *report) bool {
	for _, l := range r.Levels {
		if n, shown := l.Of[c.invariant]; l.Level == c.level && shown {
			return n.Held == n.Shown
		}
	}
	return false
}

// A store in memory is right in one process. With two, even the grader's first payment is charged twice; such a server
// is graded all the same.
func TestStoreInMemory(t *testing.T) {
	skipShort(t)
	t.Parallel()
	target := filepath.Join(t.TempDir(), "memory")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", target, "../lessons/memory")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build lab/lessons/memory: %v\n%s", err, out)
	}
	once := check{2, judge.Once}
	for profile, hinted := range map[string]bool{"plain": true, "../lessons/memory/one.json": false} {
		r := graded{target: target, profile: profile, level: "2,3"}.run(t)
		if once.holds(r) == hinted {
			t.Errorf("%s: charged once is %t", profile, once.holds(r))
		}
		var table strings.Builder
		if err := r.writeTable(&table); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(table.String(), `"instances": 1`) != hinted {
			t.Errorf("%s: a hint is wanted: %t\n%s", profile, hinted, table.String())
		}
	}
}

// A server that runs is graded by what needs no hand on it.
func TestServerAtAURL(t *testing.T) {
	skipShort(t)
	t.Parallel()
	p, err := profile.Load("payonce")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "payonce-grade-test-") // PostgreSQL runs as another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	running, err := stand.Open(t.Context(), stand.Options{Profile: p, Target: stepProgram(t, "07"), Dir: dir,
		Say: func(string) {}, Arrived: func(httpproxy.Call) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := fullMarks(t, graded{target: running.Servers[0].URL, psp: running.PSPURL(), level: "1-3,6,9"})
	for _, l := range r.Levels {
		if wanted := l.Level < 6; (len(l.Of) > 0) != wanted { //nolint:mnd // kills, and webhooks in disorder
			t.Errorf("level %d: %+v, not shown: %v", l.Level, l.Of, l.NotShown)
		}
	}
}

// A server that dies for good when it is killed keeps the marks of the levels before.
func TestServerThatDoesNotComeBack(t *testing.T) {
	skipShort(t)
	t.Parallel()
	g := python(t, "starts-once")
	g.level = "3,6"
	r := g.run(t)
	if !(check{3, judge.Refuses}).holds(r) || (check{6, judge.Ends}).holds(r) ||
		!strings.Contains(r.Ended, "I have run before") {
		t.Errorf("%+v", r)
	}
}

func TestPayonceHasFullMarks(t *testing.T) {
	skipShort(t)
	t.Parallel()
	target := filepath.Join(t.TempDir(), "grade-payonce")
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
	if !slices.Equal(not, []int{8, 9, 10, 11}) {
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
	g.patience = profile.Duration(time.Minute)
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

// A server pays, and answers each equal retry as if it were another request, or as if the first one were still under
// way, or with an error. It is graded: the client was told the truth once, and no retry is told it again.
func TestServerThatRefusesTheRetry(t *testing.T) {
	skipShort(t)
	t.Parallel()
	for status, broken := range map[string]judge.Invariant{"409": judge.Stays, "422": judge.Stays, "500": judge.Ends} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			g := python(t, "again-"+status)
			g.level = "1"
			r := g.run(t)
			for _, invariant := range []judge.Invariant{judge.Once, judge.Truth, judge.Ends, broken} {
				if (check{1, invariant}).holds(r) != (invariant != broken) {
					t.Errorf("%s holds for %+v", invariant, r.Levels[0].Of[invariant])
				}
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
		{[]string{"--level", "12", "x"}, `level "12" is not one from 1 to 11`},
		{[]string{"--level", "5-3", "x"}, `level "5-3" is not one`},
		{[]string{"--level", "x", "x"}, `level "x" is not one`},
		{[]string{"--profile", "nobody", "x"}, "neither payonce, plain nor demo"},
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
