package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payonce/lab/grade/judge"
	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
)

func TestEachBrokenInvariantLeadsToALessonThatExists(t *testing.T) {
	t.Parallel()
	for _, i := range judge.Invariants() {
		for level := range len(plan.Levels()) {
			l := lessonOf(i.Name, level+1)
			raw, err := os.ReadFile(filepath.Join("../..", lessonsFolder, l.File))
			if title, _, _ := strings.Cut(string(raw), "\n"); err != nil || title != "# "+l.Title {
				t.Errorf("%s at level %d leads to %s, %q: %v, %q", i.Name, level+1, l.File, l.Title, err, title)
			}
		}
	}
}

// Where there is a course, each history links to its lesson, also if the page is elsewhere.
func TestLinkToALesson(t *testing.T) {
	if got := lessons()[4].link("bin/graded"); got != "" {
		t.Errorf("the link in a folder without a course is %q", got)
	}
	t.Chdir("../..")
	if got := lessons()[4].link("bin/graded"); got != "../../course/lessons/04-silence-proves-nothing.md" {
		t.Errorf("the link in the project's folder is %q", got)
	}
}

// The page has one history for each broken invariant of each level: what costs money first, and no other twice.
func TestPageHasEachBrokenHistory(t *testing.T) {
	t.Parallel()
	at := time.Unix(0, 0)
	run := func(name string, charges int) judge.Run {
		r := judge.Run{Case: plan.Case{Name: name, Intents: []plan.Intent{{}}}, Amounts: []int64{500}}
		for i := range charges {
			asked := at.Add(time.Duration(i) * time.Second)
			r.Answers = append(r.Answers, judge.Answer{Asked: asked, Heard: asked.Add(time.Millisecond),
				Meaning: profile.Paid, Status: 201, Body: []byte{'0' + byte(i)}})
			r.Charges = append(r.Charges, judge.Charge{At: asked, Succeeded: true, Amount: 500})
		}
		return r
	}
	s := settings{target: "./my<server", levels: []int{1, 4}, profile: profile.Profile{Name: "plain"}}
	out := t.TempDir()
	r := newReport(s, [][]judge.Run{{run("right", 1), run("first", 2), run("second", 3)}, {run("lost", 2)}})
	if err := r.draw(out); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(out, drawing))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for text, times := range map[string]int{
		"Level 1, <strong>once</strong>: first": 1, "Level 1, <strong>bytes</strong>: first": 1, "(and 1 more)": 2,
		"Level 4, <strong>once</strong>: lost": 1, "Level 4, <strong>bytes</strong>: lost": 1,
		`class="history" open`: 1, "<svg": 4, "Lesson 4: silence": 1, "./my&lt;server": 2, "second": 0,
	} {
		if n := strings.Count(page, text); n != times {
			t.Errorf("the page has %q %d times, want %d", text, n, times)
		}
	}
	if strings.Index(page, "<strong>once") > strings.Index(page, "<strong>bytes") {
		t.Error("what costs money is not the first")
	}
}
