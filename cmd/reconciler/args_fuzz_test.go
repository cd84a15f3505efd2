package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/internal/statement"
)

// The arguments of a command line are separated by line ends here.

// What the statement's command line is taken for is what it says in the one other way to write it. A day that is named is the day that is
// read: it does not become yesterday.
func FuzzStatementArgs(f *testing.F) {
	f.Add("--date\n2026-11-20\n--account=acme\n--account\nglobex\n--format=csv\n--output\nbreaks.csv")
	f.Add("--date=0001-01-01")
	f.Add("--date\n2026-02-30")
	f.Add("--\nx")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		a, err := parseStatement(args)
		if err != nil {
			if !errors.Is(err, flag.ErrHelp) && err.Error() == "" {
				t.Fatal("refused without a word")
			}
			return
		}
		dated := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(strings.TrimLeft(arg, "-"), "date") })
		if dated && a.date.IsZero() && !strings.Contains(line, "output") && !strings.Contains(line, "account") {
			t.Fatalf("%q names a day, and is taken for yesterday", args)
		}
		if slices.Contains(a.accounts, "") || !slices.Contains([]statement.Format{statement.Table, statement.CSV, statement.JSON}, a.format) {
			t.Fatalf("%q is taken as %+v", args, a)
		}
		again := []string{"-format", string(a.format), "-output", a.output}
		if !a.date.IsZero() {
			again = append(again, "-date", a.date.Format(time.DateOnly))
			if a.date.Year() < 1970 || a.date.Truncate(24*time.Hour) != a.date {
				t.Fatalf("%q is the day %s", args, a.date)
			}
		}
		for _, account := range a.accounts {
			again = append(again, "-account="+account)
		}
		b, err := parseStatement(again)
		if err != nil || !b.date.Equal(a.date) || !slices.Equal(b.accounts, a.accounts) || b.format != a.format || b.output != a.output {
			t.Fatalf("%q is %+v, and written once more %+v, %v", args, a, b, err)
		}
	})
}

// Flags mean the same wherever they stand, and there are as many arguments as were asked for: none is lost, none appears.
func FuzzLetterArgs(f *testing.F) {
	f.Add("0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44\n--action=retry\n--version\n3", 1)
	f.Add("--reason\n--\n--\n--json\nx", 2)
	f.Add("--version=4294967297", 0)
	f.Fuzz(func(t *testing.T, line string, wanted int) {
		wanted &= 3
		parsed := func(args []string) (flags *flag.FlagSet, said [5]string, err error) {
			flags = newFlags("dlq resolve")
			action, reason := flags.String("action", "", ""), flags.String("reason", "", "")
			version, asJSON := flags.Int("version", 0, ""), flags.Bool("json", false, "")
			err = parseAll(flags, args, wanted)
			if v := int(clampVersion(*version)); v != 0 && v != *version {
				t.Fatalf("version %d is taken for %d", *version, v)
			}
			return flags, [5]string{*action, *reason, flags.Lookup("version").Value.String(), flags.Lookup("json").Value.String(), map[bool]string{true: "j"}[*asJSON]}, err
		}
		flags, said, err := parsed(strings.Split(line, "\n"))
		if err != nil {
			return
		}
		if flags.NArg() > wanted {
			t.Fatalf("%q has %d arguments, of %d", line, flags.NArg(), wanted)
		}
		again := append([]string{"-action=" + said[0], "-reason=" + said[1], "-version=" + said[2], "-json=" + said[3], "--"}, flags.Args()...)
		// Behind "--", an argument that looks like a flag is still one argument; the next one is not.
		if slices.ContainsFunc(flags.Args(), func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
			return
		}
		second, saidAgain, err := parsed(again)
		if err != nil || saidAgain != said || !slices.Equal(second.Args(), flags.Args()) {
			t.Fatalf("%q is %q %q, and written once more %q %q, %v", line, said, flags.Args(), saidAgain, second.Args(), err)
		}
		if err := parseAll(newFlags("x"), flags.Args(), len(flags.Args())); err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("%q are arguments, and then not: %v", flags.Args(), err)
		}
	})
}

// A letter is named by an id, in whichever spelling package uuid knows; what it is taken for names the same one.
func FuzzLetterID(f *testing.F) {
	f.Add("0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44")
	f.Add("{0192D6B4-7C41-7C3A-9D0E-5A1F0C9B2D44}")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := letterID(s)
		if err != nil {
			if strings.Contains(err.Error(), s) && len(s) > 40 {
				t.Fatalf("the refusal repeats %q", s)
			}
			return
		}
		digits := strings.ReplaceAll(id.String(), "-", "")
		if !strings.Contains(strings.ToLower(strings.ReplaceAll(s, "-", "")), digits) {
			t.Fatalf("%q is taken for %s", s, id)
		}
		if again, err := letterID(id.String()); err != nil || again != id {
			t.Fatalf("%s is taken for %s, %v", id, again, err)
		}
	})
}
