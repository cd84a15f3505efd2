package main

import (
	"os"
	"path/filepath"

	"payonce/lab/grade/judge"
)

// A taught invariant has a lesson of the course, by its file in course/lessons and its title.
type taught struct{ File, Title string }

// The lessons that a broken invariant may lead to.
var (
	threeCharges = taught{"00-three-charges.md", "Lesson 0: one order, three requests"}
	sameBytes    = taught{"01-the-same-bytes.md", "Lesson 1: the same bytes"}
	twoAtOnce    = taught{"02-two-at-once.md", "Lesson 2: two at once"}
	fourStates   = taught{"03-four-states.md", "Lesson 3: four states"}
	silence      = taught{"04-silence-proves-nothing.md", "Lesson 4: silence"}
	notFound     = taught{"05-not-found.md", `Lesson 5: "not found"`}
	twoMachines  = taught{"06-two-machines.md", "Lesson 6: two machines, two commits"}
	cameBack     = taught{"07-the-worker-that-came-back.md", "Lesson 7: the worker that came back"}
	lostCommit   = taught{"08-commit-without-an-answer.md", "Lesson 8: COMMIT without an answer"}
	anyOrder     = taught{"09-evidence-in-any-order.md", "Lesson 9: evidence in any order"}
	twoTenants   = taught{"10-two-tenants.md", "Lesson 10: two tenants, one key"}
	forgetting   = taught{"11-forgetting-safely.md", "Lesson 11: forgetting safely"}
	ownServer    = taught{"15-the-smallest-correct-server.md", "Lesson 15: the smallest correct server"}
)

// lessonOf is the lesson about what is broken. Some invariants break for one reason at all levels; the others break for
// the reason that the level is about.
func lessonOf(broken judge.Invariant, level int) taught {
	switch broken {
	case judge.Bytes, judge.Refuses:
		return sameBytes
	case judge.Ends:
		return fourStates
	case judge.Found:
		return notFound
	case judge.Speaks:
		return ownServer
	case judge.Forgets:
		return forgetting
	case judge.Follows:
		return anyOrder
	case judge.Once, judge.Truth, judge.Stays:
	}
	return []taught{threeCharges, twoAtOnce, sameBytes, silence, notFound, twoMachines, cameBack, lostCommit, anyOrder,
		twoTenants, anyOrder}[level-1]
}

const lessonsFolder = "course/lessons"

// Link leads from a page in the folder to the lesson. It is empty where there is no course: the grader may run alone.
func (l taught) link(from string) string {
	lesson, err := filepath.Abs(filepath.Join(lessonsFolder, l.File))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(lesson); err != nil {
		return ""
	}
	if from, err = filepath.Abs(from); err != nil {
		return ""
	}
	if lesson, err = filepath.Rel(from, lesson); err != nil {
		return ""
	}
	return filepath.ToSlash(lesson)
}
