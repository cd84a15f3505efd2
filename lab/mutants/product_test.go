package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testName = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// testsOf are the names of a package's tests.
func testsOf(t *testing.T, root, pkg string) map[string]bool {
	t.Helper()
	named := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testName.FindAllStringSubmatch(string(raw), -1) {
			named[m[1]] = true
		}
	}
	return named
}

// What stands must still be there, and a mutant of each package and of each kind of place must be found at all.
func TestSurvivorLinesFitTheProduct(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	p, err := makePlan(root)
	if err != nil {
		t.Fatal(err)
	}
	results, err := readResults("results.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := readSurvivors("survivors.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := stale(lines, p, results); err != nil {
		t.Error(err)
	}
	tests := map[string]map[string]bool{}
	for _, m := range p.mutants {
		r := results[m.hash]
		pkg, test, has := strings.Cut(r.by, " ")
		if has && tests[pkg] == nil {
			tests[pkg] = testsOf(t, root, pkg)
		}
		if has && !tests[pkg][test] {
			t.Errorf("%s was caught by %s of %s, which is gone: remove its line from results.txt, and try it again",
				m.id(), test, pkg)
		}
		if r.verdict == survived && reasonFor(lines, m) == "" {
			t.Errorf("%s survives: write a test, delete the guard, or give a reason in survivors.txt", m.id())
		}
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
