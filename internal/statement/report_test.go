package statement

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/judge"
)

// written runs acme's day and returns the report of it.
func (d *fixture) written(f Format) string {
	d.t.Helper()
	report, err := d.reconciler().Run(d.t.Context(), d.day, "acct_acme")
	if err != nil {
		d.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := d.reconciler().Write(d.t.Context(), &out, report, f); err != nil {
		d.t.Fatal(err)
	}
	return out.String()
}

// plant makes one break for each of two currencies, and one that a reader's programs could stumble over.
func (d *fixture) plant() {
	d.paid("ch_m", 3)
	d.publish("acct_acme", d.day,
		lineOf(d.paid("ch_1", 4), func(l *line) { l.amount = 12345 }),
		line{id: "ch_x", object: gateway.ChargeObject, reference: "\"=1+\n\x1b[2J\"", amount: 700, currency: "KRW",
			status: "succeeded", created: d.at(5)})
}

func TestCSVHasALineForEachBreak(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.plant()
	rows, err := csv.NewReader(strings.NewReader(d.written(CSV))).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		cells := map[string]string{}
		for i, name := range rows[0] {
			cells[name] = row[i]
		}
		if cells["day"] != "2026-03-10" || cells["account"] != "acct_acme" || cells["ageDays"] != "0" {
			t.Errorf("%v", cells)
		}
		switch cells["kind"] {
		case "amount":
			if cells["theirAmountMinor"] != "12345" || cells["ourAmountMinor"] != "12000" ||
				cells["ourStatus"] != "succeeded" {
				t.Errorf("%v", cells)
			}
		case "missing_here":
			if cells["reference"] != "'=1+\n\x1b[2J" || cells["ourAmountMinor"] != "" ||
				cells["theirCurrency"] != "KRW" {
				t.Errorf("%q", cells)
			}
		case "missing_there":
			if !strings.HasPrefix(cells["reference"], "pay_") || cells["theirAmountMinor"] != "" ||
				cells["pspId"] != "ch_m" {
				t.Errorf("%v", cells)
			}
		}
	}
}

func TestJSONIsOneDocument(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.plant()
	var got struct {
		Day    string      `json:"day"`
		Runs   []jsonRun   `json:"runs"`
		Totals []Total     `json:"totals"`
		Breaks []jsonBreak `json:"breaks"`
		Books  []jsonBooks `json:"books"`
	}
	if err := json.Unmarshal([]byte(d.written(JSON)), &got, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if got.Day != "2026-03-10" || len(got.Runs) != 1 || got.Runs[0].Breaks != 3 || len(got.Breaks) != 3 ||
		len(got.Totals) != 3 {
		t.Fatalf("%+v", got)
	}
	kinds := map[judge.BreakKind]jsonBreak{}
	for _, b := range got.Breaks {
		kinds[b.Kind] = b
	}
	if kinds[judge.BreakMissingHere].Ours != nil || kinds[judge.BreakMissingThere].Theirs != nil ||
		kinds[judge.BreakAmount].Theirs.AmountMinor != 12345 {
		t.Fatalf("%+v", got.Breaks)
	}
	for _, total := range got.Totals {
		stake := map[judge.BreakKind]string{judge.BreakAmount: "345", judge.BreakMissingHere: "700",
			judge.BreakMissingThere: "12000"}[total.Kind]
		if total.AtStakeMinor != stake || total.Breaks != 1 || total.Ages != (Ages{ToOneDay: 1}) {
			t.Errorf("%+v", total)
		}
	}
}

func TestTableIsAlignedAndHarmless(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.plant()
	table := d.written(Table)
	if strings.Contains(table, "\x1b") || !strings.Contains(table, "=1+??[2J") {
		t.Errorf("the terminal obeys a reference:\n%q", table)
	}
	column := -1
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "KIND ") && strings.Contains(line, "PSP ID") {
			column = strings.Index(line, "PSP ID")
		}
		for _, kind := range []judge.BreakKind{judge.BreakMissingHere, judge.BreakMissingThere,
			judge.BreakAmount} {
			if strings.HasPrefix(line, string(kind)) && strings.Contains(line, "ch_") &&
				(!strings.HasPrefix(line[column:], "ch_") || line[column-1] != ' ') {
				t.Errorf("not in its column: %q", line)
			}
		}
	}
	if column < 0 || !strings.Contains(table, "\nBreaks of acct_acme, 2026-03-10\nKIND ") {
		t.Errorf("no heading in\n%s", table)
	}
	for _, want := range []string{"123.45 USD", "120.00 USD", "700 KRW", "3.45"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %s in\n%s", want, table)
		}
	}
}

// A break of each kind, with the longest that each column can meet: a terminal of 120 columns shows a line as a line,
// and no amount is cut off.
func TestTableFitsA120ColumnTerminal(t *testing.T) {
	t.Parallel()
	d := setup(t)
	large := func(m *movement) { m.amount = 999_999_999_999 }
	long := strings.Repeat("x", 100)
	again := lineOf(d.paid(long+"1", 4, large))
	d.paid(long+"2", 5, large, refund)
	d.publish("acct_acme", d.day,
		line{id: long + "0", object: gateway.RefundObject, reference: long, amount: 1<<63 - 1, currency: "USD",
			status: "succeeded", created: d.at(3)},
		again, again,
		lineOf(d.paid(long+"3", 6, large), func(l *line) { l.amount-- }),
		lineOf(d.paid(long+"4", 7, large), func(l *line) { l.currency = "KWD" }),
		lineOf(d.paid(long+"5", 8, large), func(l *line) { l.id = long + "6" }),
		lineOf(d.paid("", 9, large, func(m *movement) { m.status, m.finished = "processing", nil }),
			func(l *line) { l.id = long + "7" }),
	)
	d.run()
	d.exec("UPDATE statement_breaks SET first_seen = clock_timestamp() - interval '999 days'")
	table := d.written(Table)
	for text := range strings.Lines(table) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(text, "\n")); n > 120 {
			t.Errorf("%d columns: %s", n, text)
		}
	}
	for _, want := range []string{
		"92233720368547758.07 USD", "9999999999.99 USD", "999999999.999 KWD", "2 × this id", "  a refund",
		"ours is processing", "ours has xxx", "999d",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	for _, kind := range judge.BreakKinds() {
		if !strings.Contains(table, "\n"+string(kind)+" ") {
			t.Errorf("no break of kind %s in\n%s", kind, table)
		}
	}
}

func TestBreaksAgeFromTheirFirstSight(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for i, age := range []string{"1 hour", "23 hours", "25 hours", "6 days 23 hours", "7 days 1 hour", "90 days"} {
		d.paid("ch_"+string(rune('a'+i)), float64(i+1))
		d.publish("acct_acme", d.day)
		d.run()
		d.exec("UPDATE statement_breaks SET first_seen = clock_timestamp() - $1::text::interval WHERE psp_id = $2", age,
			"ch_"+string(rune('a'+i)))
	}
	report, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
	if err != nil {
		t.Fatal(err)
	}
	totals, err := d.reconciler().totals(t.Context(), report)
	if err != nil || len(totals) != 1 {
		t.Fatalf("%+v, %v", totals, err)
	}
	if got := totals[0]; got.Ages != (Ages{2, 2, 2}) || got.Breaks != 6 || got.AtStakeMinor != "72000" {
		t.Fatalf("%+v", got)
	}
	oldest := d.open("acct_acme", d.day)[5]
	if oldest.AgeSeconds/daySeconds != 90 || oldest.MovementAgeSeconds <= 0 ||
		oldest.MovementAgeSeconds > int64(time.Since(d.day)/time.Second) {
		t.Fatalf("%+v", oldest)
	}
}

func TestReportIsOfItsOwnDays(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.plant()
	d.run()
	d.publish("acct_globex", d.day)
	report, err := d.reconciler().Run(t.Context(), d.day, "acct_globex")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = d.reconciler().Write(t.Context(), &out, report, Table)
	if err != nil || !strings.Contains(out.String(), "No breaks.") || strings.Contains(out.String(), "ch_") {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

func TestFormatThatThereIsNotIsRefused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	if err := d.reconciler().Write(t.Context(), &bytes.Buffer{}, Report{}, "xml"); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
}

// brokenPipe takes nothing.
type brokenPipe struct{}

var errPipe = errors.New("pipe broken")

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestReportThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.plant()
	report, err := d.reconciler().Run(context.Background(), d.day, "acct_acme")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Format{Table, CSV, JSON} {
		if err := d.reconciler().Write(t.Context(), brokenPipe{}, report, f); !errors.Is(err, errPipe) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestReportWithBreaksIsNoSuccess(t *testing.T) {
	t.Parallel()
	if err := (Report{Runs: []Summary{{}, {Breaks: 1}}}).Err(); !errors.Is(err, ErrBreaks) {
		t.Fatal(err)
	}
	if err := (Report{Runs: []Summary{{Pending: 1, Gone: 1}}}).Err(); err != nil {
		t.Fatal(err)
	}
}
