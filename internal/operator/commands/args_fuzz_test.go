package commands

import (
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/internal/cli"
	"payonce/internal/statement"
)

// The arguments of a command line are separated by line ends here.

// What the statement's command line is taken for is what it says in the one other way to write it. A day that is named
// is the day that is read: it does not become yesterday.
func FuzzStatementArgs(f *testing.F) {
	f.Add("--date\n2026-11-20\n--account=acme\n--account\nglobex\n--format=csv\n--output\nbreaks.csv")
	f.Add("--date=0001-01-01")
	f.Add("--date=2026-11-20\n--date=today")
	f.Add("--date\nyesterday")
	f.Add("--date\n2026-02-30")
	f.Add("--\nx")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		a, err := parseStatement(args)
		if err != nil {
			if cli.Code(err) != 2 || !strings.HasSuffix(err.Error(), "; see reconciler statement --help") {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		dated := slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasPrefix(strings.TrimLeft(arg, "-"),
				"date")
		})
		named := a.today || slices.ContainsFunc(args,
			func(arg string) bool { return strings.HasSuffix(arg, "yesterday") })
		if dated && a.date.IsZero() && !named && !strings.Contains(line, "output") &&
			!strings.Contains(line, "account") {
			t.Fatalf("%q names a day, and is taken for yesterday", args)
		}
		if slices.Contains(a.accounts, "") || !slices.Contains([]statement.Format{statement.Table, statement.CSV,
			statement.JSON}, a.format) {
			t.Fatalf("%q is taken as %+v", args, a)
		}
		again := []string{"-format", string(a.format), "-output", a.output}
		if !a.date.IsZero() {
			again = append(again, "-date", a.date.Format(time.DateOnly))
			if a.date.Year() < 1970 || a.date.Truncate(24*time.Hour) != a.date {
				t.Fatalf("%q is the day %s", args, a.date)
			}
		}
		if a.today {
			again = append(again, "-date=today")
		}
		for _, account := range a.accounts {
			again = append(again, "-account="+account)
		}
		b, err := parseStatement(again)
		if err != nil || !b.date.Equal(a.date) || b.today != a.today || !slices.Equal(b.accounts, a.accounts) ||
			b.format != a.format || b.output != a.output {
			t.Fatalf("%q is %+v, and written once more %+v, %v", args, a, b, err)
		}
	})
}
