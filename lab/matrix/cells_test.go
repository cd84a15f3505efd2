package main

import (
	"strings"
	"testing"
)

func TestEachCellHasItsOwnName(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range cells(flows()) {
		if names[c.name()] {
			t.Errorf("%s is there twice", c.name())
		}
		names[c.name()] = true
	}
	for _, f := range flows() {
		for _, r := range f.rows {
			if r.script == nil && (r.prepare == nil || r.begin == nil || r.finish == nil) || r.want.posts[1] == 0 {
				t.Errorf("%s, %s: something of the row is missing", f.name, r.step)
			}
		}
	}
}

// What is not played says why, and every row is played under kill -9 and a pause at least.
func TestNoCellIsSilentlyMissing(t *testing.T) {
	t.Parallel()
	played := map[string]bool{}
	for _, c := range cells(flows()) {
		played[c.name()] = true
	}
	for _, f := range flows() {
		for i, r := range f.rows {
			for _, column := range faults() {
				c := cell{f.name, r, labels(f.rows)[i], column}
				if why := r.senseless(column); played[c.name()] == (why != "") {
					t.Errorf("%s is played: %t, though: %q", c.name(), played[c.name()], why)
				}
			}
			if r.script == nil && (r.senseless(kill) != "" || r.senseless(pause) != "") {
				t.Errorf("%s, %s is not killed, or not paused", f.name, r.step)
			}
		}
	}
}

func TestSelectionTakesFlowsWindowsRowsAndCells(t *testing.T) {
	t.Parallel()
	all := cells(flows())
	for only, want := range map[string]string{
		"payment/4/kill":     "payment/4/kill",
		"payment/3a/psp-500": "payment/3a/psp-500",
		"payment/2": "payment/2a/kill payment/2a/pause payment/2a/nap payment/2a/ack-lost payment/2a/hang-up " +
			"payment/2b/kill payment/2b/pause payment/2b/hang-up",
		"payment/2b":                  "payment/2b/kill payment/2b/pause payment/2b/hang-up",
		"scene/4a":                    "scene/4a/scene",
		"refund/2b, payment/4":        "payment/4/kill payment/4/pause payment/4/ack-lost payment/4/hang-up refund/2b/kill refund/2b/pause refund/2b/hang-up",
		"payment/2b,payment/2b/pause": "payment/2b/kill payment/2b/pause payment/2b/hang-up",
	} {
		chosen, err := selected(all, only)
		var names []string
		for _, c := range chosen {
			names = append(names, c.name())
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: %v, %s", only, err, got)
		}
	}
	for _, only := range []string{"payments", "payment/27", "payment/4/ack", "payment/1/ack-lost", "payment/4/kill/1",
		",payment"} {
		if _, err := selected(all, only); err == nil {
			t.Errorf("%q is taken", only)
		}
	}
}

func TestSampleHasEachRowOnceAndEachColumn(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, f := range flows() {
		rows += len(f.rows)
	}
	for seed := range uint64(50) {
		drawnRows, drawnColumns := map[string]bool{}, map[fault]bool{}
		drawn := sample(cells(flows()), seed)
		for _, c := range drawn {
			drawnRows[c.flow+"/"+c.label], drawnColumns[c.fault] = true, true
		}
		if len(drawn) != rows || len(drawnRows) != rows || len(drawnColumns) != len(faults()) {
			t.Fatalf("seed %d: %d cells of %d rows, %d of them different, in %d columns", seed, len(drawn), rows,
				len(drawnRows), len(drawnColumns))
		}
	}
	if a, b := sample(cells(flows()), 7), sample(cells(flows()), 7); a[0].name() != b[0].name() ||
		a[len(a)-1].name() != b[len(b)-1].name() {
		t.Error("a seed draws other cells the second time")
	}
}
