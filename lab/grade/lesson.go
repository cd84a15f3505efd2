package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"payonce/internal/cli"
	"payonce/lab/grade/judge"
)

// exercise is a lesson that has a step of the course: the reader's copy of it is wrong until the level is right.
type exercise struct {
	lesson int
	step   int
	level  int
	shows  judge.Invariant // the check that becomes right in the next step
	later  judge.Invariant // what a later lesson corrects; or ""
	asks   string
	dir    string // of the copy
}

func exercises() []exercise {
	return []exercise{
		{2, 1, 2, judge.Once, "", "of two requests at once, only one may charge", ""},
		{3, 3, 6, judge.Ends, judge.Found, "the key of a process that was killed must come to an end", ""},
		{4, 2, 4, judge.Once, judge.Found, "a lost answer is no failure: the retry must not charge again", ""},
		{5, 5, 5, judge.Found, "", "the server must find a late charge also if the client never asks again", ""},
		{7, 4, 7, judge.Stays, "", "a process that comes back must not overwrite a final answer", ""},
		{11, 6, 1, judge.Forgets, "", "a key can be used again when its time is over", ""},
	}
}

// mine is where a reader's copies are. Git and the go command's ./... leave them alone.
const mine = "course/mine"

// exerciseOf is the exercise of a lesson, for the copy in the folder, or in the usual one. If the lesson has none, it
// says which ones have.
func exerciseOf(lesson, folder string, stdout io.Writer) (*exercise, error) {
	number, err := strconv.Atoi(lesson)
	for _, e := range exercises() {
		if number == e.lesson && err == nil {
			e.dir = cmp.Or(folder, fmt.Sprintf("%s/%02d", mine, e.lesson))
			return &e, nil
		}
	}
	fmt.Fprintln(stdout, "In these lessons, you make a wrong step of the course right. The first check copies it to",
		mine+":")
	for _, e := range exercises() {
		fmt.Fprintf(stdout, "  make check LESSON=%-3d %s\n", e.lesson, e.asks)
	}
	fmt.Fprintln(stdout, "In lesson 15, grade a server of your own: make grade TARGET=./my-server PROFILE=plain\n"+
		"In the other lessons, plant the bug of \"Break it\", and answer the questions.")
	if lesson == "list" {
		return nil, nil //nolint:nilnil // nothing was asked for
	}
	return nil, cli.Usagef("lesson %s has no step", lesson)
}

// build makes the reader's copy, if there is none yet, and builds it. What the compiler says is shown as it is.
func (e exercise) build(ctx context.Context, getenv func(string) string, stdout io.Writer) (string, error) {
	_, err := os.Stat(e.dir)
	if errors.Is(err, os.ErrNotExist) && strings.HasPrefix(e.dir, mine) {
		if err := e.copyStep(); err != nil {
			return "", fmt.Errorf("copy step %02d: %w", e.step, err)
		}
		fmt.Fprintf(stdout, "%s is your copy of step %02d now, which has the fault that this lesson is about. "+
			"Begin to read it in pay.go.\n", e.dir, e.step)
	}
	target, err := filepath.Abs(fmt.Sprintf("bin/lesson-%02d", e.lesson))
	if err != nil {
		return "", fmt.Errorf("name the program: %w", err)
	}
	build := exec.CommandContext(ctx, cmp.Or(getenv("GO"), "go"), "build", "-buildvcs=false", "-o", target, ".")
	build.Dir, build.Stdout, build.Stderr = e.dir, stdout, stdout
	if err := build.Run(); err != nil {
		return "", cli.WithCode(exitNot, fmt.Errorf("%s does not build: %w", e.dir, err))
	}
	return target, nil
}

// copyStep makes the copy under another name first: half a copy would never be made whole.
func (e exercise) copyStep() error {
	if _, err := os.Stat(stepDir(e.step)); err != nil {
		return fmt.Errorf("the lessons are for the folder of the project: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(e.dir), 0o755); err != nil {
		return err
	}
	half, err := os.MkdirTemp(filepath.Dir(e.dir), ".half-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(half) }()
	whole := filepath.Join(half, "step") // CopyFS gives it the usual rights
	if err := os.CopyFS(whole, os.DirFS(stepDir(e.step))); err != nil {
		return err
	}
	return os.Rename(whole, e.dir)
}

func stepDir(step int) string { return fmt.Sprintf("course/steps/%02d", step) }

// conclude says of each check of the level whether it is right, and fails while one is wrong that no later lesson
// corrects.
func (e exercise) conclude(r *report, stdout io.Writer) error {
	var b strings.Builder
	_, shown := r.Levels[0].Of[e.shows]
	fmt.Fprintf(&b, "\nLesson %d asks: %s. Level %d of the grader, %s:\n\n", e.lesson, e.asks, e.level,
		r.Levels[0].Name)
	for _, i := range judge.Invariants() {
		n, tried := r.Levels[0].Of[i.Name]
		word := "wrong"
		switch {
		case !tried:
			continue
		case n.Held == n.Shown:
			word = "right"
		case i.Name == e.later:
			word = "later" // a later lesson is about it
		}
		fmt.Fprintf(&b, "  %s  %-8s %s (%d of %d)\n", word, i.Name, i.Says, n.Held, n.Shown)
	}
	if r.failed > 0 {
		fmt.Fprintf(&b, "\nOf the answers, %d had the status 500 or more. If nothing had failed, look in %s\n", r.failed,
			filepath.Join("bin", "graded", "server-1.log"))
	}
	done := shown && r.First == nil && r.Ended == ""
	switch {
	case r.Ended != "":
		fmt.Fprintf(&b, "\nThe run has ended here: %s\n", r.Ended)
	case r.First != nil:
		fmt.Fprintf(&b, "\nThe first that is wrong: %s, when %s: %s.\nThe smallest history that shows it is drawn in %s\n",
			r.First.Invariant, r.First.Case, r.First.Why, r.First.HTML)
	case done:
		fmt.Fprintf(&b, "\nLesson %d is done.", e.lesson)
		if solved := stepDir(e.step + 1); filepath.Clean(e.dir) != solved {
			fmt.Fprintf(&b, " How the course does it: diff -ru %s %s", e.dir, solved)
		}
		b.WriteString("\n")
	}
	if _, err := io.WriteString(stdout, b.String()); err != nil || done {
		return err
	}
	return cli.WithCode(exitBelow, fmt.Errorf("lesson %d is not done yet", e.lesson))
}
