package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTablesSayWhatWasAlone(t *testing.T) {
	t.Parallel()
	var drawn []mutant
	for _, hash := range []string{"1", "2", "3", "4"} {
		drawn = append(drawn, mutant{hash: hash, key: "place " + hash})
	}
	out := &bytes.Buffer{}
	w := work{stdout: out}
	if err := w.printAlone(drawn, map[string]observation{
		noMutant: {Reached: []string{"place 1", "place 2", "place 3"}},
		"1": {ID: "a|b", Violations: map[string][]string{
			"I1": {"matrix payment/1/kill acme POST /payments key-1", "matrix payment/1/kill", "matrix refund/1/kill"},
		}},
		"2": {ID: "two", Violations: map[string][]string{
			"I1": {"chaos key-1", "chaos key-2"}, "I4": {"matrix payment/1/pause", "matrix payment/1/kill"},
		}},
		"3": {ID: "three"},
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"4 mutants, seed 0: 1 are in places that these runs do not reach, 2 were seen, 1 were not.",
		"| I1 | 2 | 1 | `` a\\|b `` |", "| I4 | 1 | 0 |  |",
		"| chaos | 1 | 0 |  |", "| kill | 2 | 1 | `` a\\|b `` |", "| pause | 1 | 0 |  |",
		"| cell that was alone at least once | saw | alone | which |\n|---|---|---|---|\n\n", // two cells have seen the first one
		"| `` two `` | I1 in chaos; I4 in payment/1/pause, payment/1/kill |", "| `` three `` |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
