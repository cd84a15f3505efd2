package statement

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/statement/internal/dbsqlc"
)

// tableOf is the table of these breaks, without what comes before and after them.
func tableOf(t *testing.T, breaks ...Break) string {
	t.Helper()
	var out bytes.Buffer
	w := &tableWriter{out: bufio.NewWriter(&out)}
	for _, b := range breaks {
		if err := w.add(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.out.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// An operator reads a break under the account and the day that it is of.
func TestEachAccountsDayHasOneHeading(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	of := func(account string, day time.Time) Break {
		return Break{Break: judge.Break{Kind: judge.BreakAmount, Account: account, Day: day}}
	}
	next := day.Add(oneDay)
	table := tableOf(t, of("acct_a", day), of("acct_a", day), of("acct_a", next), of("acct_b", next),
		of("acct_b", next))
	var got []string
	for line := range strings.Lines(table) {
		switch heading, isHeading := strings.CutPrefix(line, "Breaks of "); {
		case isHeading:
			got = append(got, strings.TrimSuffix(heading, "\n"))
		case strings.HasPrefix(line, string(judge.BreakAmount)):
			got = append(got, "break")
		}
	}
	const want = "acct_a, 2026-03-10|break|break|acct_a, 2026-03-11|break|acct_b, 2026-03-11|break|break"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

// The day that is not over is marked, so that nobody takes what is missing there for lost.
func TestOnlyADayThatIsNotOverIsMarked(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := &tableWriter{out: bufio.NewWriter(&out)}
	if err := w.begin(Report{Runs: []Summary{{Account: "acct_over"}, {Account: "acct_partial", Partial: true}}},
		nil); err != nil {
		t.Fatal(err)
	}
	if err := w.out.Flush(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "not over") != strings.HasPrefix(line, "acct_partial ") {
			t.Errorf("%s", line)
		}
	}
}

// The tables do not refuse such a row, which only a repair by hand can leave behind.
func TestBreakWithoutASubjectKeepsItsReference(t *testing.T) {
	t.Parallel()
	b := breakOf(dbsqlc.OpenBreaksRow{Kind: string(judge.BreakMissingThere), Reference: "pay_lost"})
	if b.Reference != "pay_lost" {
		t.Errorf("%+v", b)
	}
}

func TestNotesSayWhatTheColumnsDoNot(t *testing.T) {
	t.Parallel()
	young := Break{MovementAgeSeconds: 3 * daySeconds, AgeSeconds: 2 * daySeconds}
	old := Break{MovementAgeSeconds: 3*daySeconds + 1, AgeSeconds: 2 * daySeconds}
	twice := Break{Break: judge.Break{Kind: judge.BreakDuplicate, Object: gateway.RefundObject}, Lines: 2}
	of := func(b judge.Break) Break { return Break{Break: b} }
	ours := func(kind judge.BreakKind, ours judge.Side) Break {
		return of(judge.Break{Kind: kind, PSPID: "ch_1", Ours: &ours})
	}
	for name, c := range map[string]struct {
		b    Break
		want string
	}{
		"a day old when found": {young, ""},
		"older when found":     {old, "moved 3 days ago"},
		"a refund":             {of(judge.Break{Object: gateway.RefundObject}), "a refund"},
		"a dispute": {Break{Break: judge.Break{Kind: judge.BreakMissingHere, Object: gateway.DisputeObject},
			Changed: "pay_1"}, "a dispute; of our pay_1, made by others"},
		"another tenant's reference": {of(judge.Break{Kind: judge.BreakMissingHere, OtherTenant: true}),
			"the reference is another tenant's"},
		"nobody's reference": {of(judge.Break{Kind: judge.BreakMissingHere}), ""},
		"missing there":      {of(judge.Break{Kind: judge.BreakMissingThere, OtherTenant: true}), ""},
		"one id, two references": {ours(judge.BreakPSPID, judge.Side{PSPID: "ch_1"}),
			"ours has another reference"},
		"one reference, two ids": {ours(judge.BreakPSPID, judge.Side{PSPID: "ch_2"}), "ours has ch_2"},
		"our status":             {ours(judge.BreakStatus, judge.Side{Status: "failed"}), "ours is failed"},
		"two notes":              {twice, "a refund; 2 × this id"},
	} {
		if got := strings.Join(notes(c.b), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An amount is never cut off: if it does not fit its column, it is on a line of its own.
func TestAmountStaysInItsColumnAsLongAsItFits(t *testing.T) {
	t.Parallel()
	for minor, below := range map[int64]bool{999_999_999_999: false, 1_000_000_000_000: true} {
		b := Break{Break: judge.Break{Kind: judge.BreakAmount,
			Theirs: &judge.Side{AmountMinor: minor, Currency: "USD"}}}
		table := tableOf(t, b)
		if strings.Contains(table, "theirs is ") != below || !strings.Contains(table, money(b.Theirs)) {
			t.Errorf("%d:\n%s", minor, table)
		}
	}
	if got := money(&judge.Side{AmountMinor: 12345, Currency: "XTS"}); got != "12345 XTS" {
		t.Errorf("a currency that is not in use: %s", got)
	}
}

// A space of another kind may be a line of its own to a terminal, or look like the border of a column.
func TestSpacesThatAreNoSpaceAreReplaced(t *testing.T) {
	t.Parallel()
	if got := shown("a b\u00a0c\u2028d\u3000e", 40); got != "a b?c?d?e" {
		t.Errorf("%q", got)
	}
}

// An empty line between breaks would say that there is a remark.
func TestBreakWithoutNotesIsOneLine(t *testing.T) {
	t.Parallel()
	for kind, lines := range map[judge.BreakKind]int{judge.BreakAmount: 1, judge.BreakDuplicate: 2} {
		table := tableOf(t, Break{Break: judge.Break{Kind: kind}})
		_, rows, _ := strings.Cut(table, "AGE\n")
		if n := strings.Count(rows, "\n"); n != lines {
			t.Errorf("%s has %d lines, want %d\n%s", kind, n, lines, table)
		}
	}
}

// A sum of amounts may be larger than any amount. It is in the minor unit then, because it must be right.
func TestTotalThatIsNoAmountIsNotChanged(t *testing.T) {
	t.Parallel()
	const large = "9223372036854775808" // one more than the largest amount
	var out bytes.Buffer
	w := &tableWriter{out: bufio.NewWriter(&out), lines: 1,
		totals: []Total{{Kind: judge.BreakAmount, Currency: "USD", AtStakeMinor: large}}}
	if err := errors.Join(w.endBreaks(), w.end()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), " "+large+" ") {
		t.Errorf("no %s in\n%s", large, out.String())
	}
}
