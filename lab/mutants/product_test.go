package main

import (
	"path/filepath"
	"testing"
)

// What stands must still be there, and a mutant of each package and of each kind of place must be found at all.
func TestSurvivorLinesFitTheProduct(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	p, err := makePlan(root)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := readSurvivors("survivors.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := stale(lines, p, nil); err != nil {
		t.Error(err)
	}
	found := map[string]int{}
	for _, m := range p.mutants {
		found[m.where]++
	}
	for _, where := range append(packages(), "db/queries/idempotency.sql", "db/queries/payments.sql",
		"db/migrations/00112_idempotency_keys.sql", "db/migrations/00113_payments.sql") {
		if found[where] == 0 {
			t.Errorf("%s has no mutant", where)
		}
	}
}
