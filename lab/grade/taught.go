package main

import (
	"os"
	"path/filepath"

	"payonce/lab/grade/judge"
)

// taught is a lesson of the course, by its file in course/lessons and its title.
type taught struct{ File, Title string }

// lessons are those that a broken invariant may lead to, by their number.
func lessons() map[int]taught {
	return map[int]taught{
		0:  {"00-three-charges.md", "Lesson 0: one order, three requests"},
		1:  {"01-the-same-bytes.md", "Lesson 1: the same bytes"},
		2:  {"02-two-at-once.md", "Lesson 2: two at once"},
		3:  {"03-four-states.md", "Lesson 3: four states"},
		4:  {"04-silence-proves-nothing.md", "Lesson 4: silence"},
		5:  {"05-not-found.md", `Lesson 5: "not found"`},
		6:  {"06-two-machines.md", "Lesson 6: two machines, two commits"},
		7:  {"07-the-worker-that-came-back.md", "Lesson 7: the worker that came back"},
		8:  {"08-commit-without-an-answer.md", "Lesson 8: COMMIT without an answer"},
		9:  {"09-evidence-in-any-order.md", "Lesson 9: evidence in any order"},
		10: {"10-two-tenants.md", "Lesson 10: two tenants, one key"},
		11: {"11-forgetting-safely.md", "Lesson 11: forgetting safely"},
		15: {"15-the-smallest-correct-server.md", "Lesson 15: the smallest correct server"},
	}
}

// lessonOf is the lesson about what is broken. Some invariants break for one reason at all levels. The others break for
// the reason that the level is about.
func lessonOf(broken judge.Invariant, level int) taught {
	ofLevel := []int{0, 2, 1, 4, 5, 6, 7, 8, 9, 10, 9}
	number, same := map[judge.Invariant]int{
		judge.Bytes: 1, judge.Refuses: 1, judge.Ends: 3, judge.Found: 5, judge.Speaks: 15, judge.Forgets: 11,
		judge.Follows: 9,
	}[broken]
	if !same {
		number = ofLevel[level-1]
	}
	return lessons()[number]
}

const lessonsFolder = "course/lessons"

// link leads from a page in the folder to the lesson. It is empty where there is no course: the grader may run alone.
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
