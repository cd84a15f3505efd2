package main

import (
	"strings"
	"testing"
	"time"

	"payonce/lab/program"
)

// played is a run of two cells, one of which has failed.
func played() report {
	m := &matrix{settings: settings{Seed: 7}, done: []result{
		{Cell: "payment/4/ack-lost", Took: time.Second},
		{Cell: "payment/4/kill", Took: time.Second, Kept: "bin/x",
			Violations: []program.Violation{program.Broken("I1", "payment/4/kill k", "charged twice")}},
	}}
	return m.report(time.Now())
}

func TestGridTellsWhatWasPlayedWhatFailedAndWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := played().text(&text); err != nil {
		t.Fatal(err)
	}
	var row string
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "completed | its acknowledgement") && row == "" {
			row = strings.Join(strings.Fields(line), " ")
		}
	}
	if want := "4 completed | its acknowledgement FAIL – · – – – ok – – – · –"; row != want {
		t.Errorf("the row is %q, want %q", row, want)
	}
	for _, want := range []string{"I1  payment/4/kill k\n      charged twice\n", "kept: bin/x\n",
		"seed 7: 2 cells, 1 failed, 1 violations", "2b*"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "refund") {
		t.Error("a flow is printed of which nothing was played")
	}
}
