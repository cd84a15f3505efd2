// Command grade finds out whether a payment server charges once, whatever fails. The server may be in any language: a
// profile says how it is spoken to, and the mock PSP's ledger says what it has really charged. `make grade` runs it.
//
// It owns the arc (grade.go), how a case is played (play.go, steps.go), and what is printed and drawn (report.go,
// draw.go). Package plan has the levels, package judge the invariants, package stand the processes, and package profile
// the server's language. docs/grade.md is the page for those who use it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"payonce/internal/cli"
	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
)

const usage = `Usage: grade [flags] [TARGET]
       grade --lesson N [FOLDER]

Finds out whether a payment server charges once, whatever fails. TARGET is a program, also a script, in any language;
or the URL of a server that runs. The program is started twice, with these environment variables:

  PORT            where it has to listen, on 127.0.0.1
  DATABASE_URL    a fresh PostgreSQL database
  PSP_URL         the mock PSP
  PSP_SECRET      its bearer token
  WEBHOOK_SECRET  what the PSP signs its webhooks with (Standard Webhooks)
  API_KEYS        key=tenant,key=tenant

Flags, and the environment variables that they take their defaults from:
  --profile  PROFILE  payonce, plain, demo, or a file; docs/grade.md says how to write one (default payonce)
  --level    LEVEL    levels to try, such as 3 or 1-5 or 2,6 (default: all)
  --seed     SEED     repeats a run (default: a new one, which is printed)
  --psp      PSP      the mock PSP of a server that runs (default http://127.0.0.1:8082)
  --lesson   N        builds the reader's copy of a lesson's step, and says what is left (default course/mine/N)
  --stop              ends after the first level that is not full
  --json              prints the report as JSON
  --out      OUT      where the logs and the drawings go (default bin/graded)

Exit codes: 0 full marks; 1 less; 2 the server cannot be graded, and why.
`

// settings of a run.
type settings struct {
	target, psp, out string
	lesson           string // its number, or "list"; then target is the folder of the copy, or ""
	profile          profile.Profile
	levels           []int
	seed             uint64
	exercise         *exercise // of a lesson; or nil
	stop, json       bool
	marksAlone       bool // no search for the smallest history: for tests that look at nothing else
}

func main() {
	cli.Main("grade", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

const (
	exitBelow = 1 // less than full marks
	exitNot   = 2 // not graded
)

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if len(args) > 0 && (args[0] == "--version" || args[0] == "version") {
		return cli.PrintVersion(stdout, "grade")
	}
	if asked, err := cli.Help(stdout, usage, "grade", args); asked {
		return err
	}
	s, err := readSettings(args, getenv)
	if err != nil {
		return err
	}
	if s.lesson != "" {
		if s.exercise, err = exerciseOf(s.lesson, s.target, stdout); err != nil || s.exercise == nil {
			return err
		}
		s.levels = []int{s.exercise.level}
		if s.target, err = s.exercise.build(ctx, getenv, stdout); err != nil {
			return err
		}
	}
	report, err := grade(ctx, s, stderr)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // all processes have ended, and there are no marks
		}
		return cli.WithCode(exitNot, err)
	}
	if s.exercise != nil {
		return s.exercise.conclude(report, stdout)
	}
	if s.json {
		err = report.writeJSON(stdout)
	} else {
		err = report.writeTable(stdout)
	}
	if err != nil {
		return err
	}
	switch {
	case report.Of == 0:
		return cli.WithCode(exitNot, errors.New("nothing could be shown, so there are no marks"))
	case report.Marks < report.Of || report.Ended != "":
		return cli.WithCode(exitBelow, errors.New("less than full marks"))
	}
	return nil
}

func readSettings(args []string, getenv func(string) string) (settings, error) {
	or := func(name, otherwise string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return otherwise
	}
	flags := cli.NewFlags("grade")
	name := flags.String("profile", or("PROFILE", "payonce"), "")
	level := flags.String("level", getenv("LEVEL"), "")
	seed := flags.Uint64("seed", 0, "")
	psp := flags.String("psp", or("PSP", "http://127.0.0.1:8082"), "")
	out := flags.String("out", or("OUT", "bin/graded"), "")
	var s settings
	flags.StringVar(&s.lesson, "lesson", "", "")
	stop := flags.Bool("stop", false, "")
	asJSON := flags.Bool("json", false, "")
	if err := cli.Parse(flags, args, 1); err != nil {
		return settings{}, err
	}
	s.target, s.psp, s.out, s.stop, s.json, s.seed = flags.Arg(0), *psp, *out, *stop, *asJSON, *seed
	if s.target == "" && s.lesson == "" {
		s.target = getenv("TARGET")
	}
	if s.target == "" && s.lesson == "" {
		return s, cli.Usagef("no TARGET: name a program, or the URL of a server; see grade --help")
	}
	var err error
	if text := getenv("SEED"); s.seed == 0 && text != "" {
		if s.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return s, cli.Usagef("SEED is %q, must be a whole number", text)
		}
	}
	if s.seed == 0 {
		s.seed = uint64(rand.Uint32()) // short enough to be typed
	}
	if s.levels, err = readLevels(*level); err != nil {
		return s, err
	}
	if s.profile, err = profile.Load(*name); err != nil {
		return s, cli.WithCode(exitNot, err)
	}
	return s, nil
}

// readLevels reads 3, 1-5 and 2,6.
func readLevels(text string) ([]int, error) {
	most := len(plan.Levels())
	wanted := make([]bool, most+1)
	if text == "" {
		text = fmt.Sprintf("1-%d", most)
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, span := strings.Cut(strings.TrimSpace(part), "-")
		if !span {
			to = from
		}
		low, err1 := strconv.Atoi(from)
		high, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || low < 1 || high > most || low > high {
			return nil, cli.Usagef("level %q is not one from 1 to %d, nor a span such as 1-5", part, most)
		}
		for n := low; n <= high; n++ {
			wanted[n] = true
		}
	}
	var levels []int
	for n, is := range wanted {
		if is {
			levels = append(levels, n)
		}
	}
	return levels, nil
}
