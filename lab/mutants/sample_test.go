package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample has each kind of place once. What it prints for some numbers tells which place was changed.
const sample = `package sample

import "errors"

var errOdd = errors.New("odd")

type shape interface{ isShape() }
type square struct{}
type circle struct{}

func (square) isShape() {}
func (circle) isShape() {}

func Return(n int) string {
	if n == 1 {
		return "one"
	}
	return "other"
}

func Both(n int) bool { return n > 1 && n < 3 }

func Is(n int) bool { return n == 2 }

func Either(n int) string {
	s := "no"
	if n == 2 || !(n == 1 || n/2 == 1) {
		s = "yes"
	}
	return s
}

func Cases(n int) string {
	switch n {
	case 1, 2:
		return "low"
	case 3:
		return "three"
	default:
		return "high"
	}
}

func Called(n int) string {
	switch twice := n * 2; {
	case twice > 4:
		return "big"
	}
	switch double(n) {
	case 2:
		return "two"
	}
	return "small"
}

func double(n int) int { return 2 * n }

func Shapes(n int) string {
	var s shape = square{}
	if n > 2 {
		s = circle{}
	}
	switch s.(type) {
	case square:
		return "square"
	case circle:
		return "circle"
	}
	return "none"
}

func Checked(n int) string {
	err := odd(n)
	if err != nil {
		return "odd"
	}
	return "even"
}

func odd(n int) error {
	if n%2 == 1 {
		return errOdd
	}
	return nil
}

func Received(n int) string {
	c := make(chan int, 1)
	if n == 1 {
		c <- n
	}
	select {
	case <-c:
		return "got"
	default:
		return "empty"
	}
}

func Sent(n int) string {
	c := make(chan int, n%2)
	select {
	case c <- n:
		return "sent"
	default:
		return "full"
	}
}

func Negated(n int) bool { return !Is(n) }

func Looped(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i
	}
	return sum
}
`

const sampleMain = `package main

import (
	"fmt"
	"payonce/internal/sample"
)

func main() {
	for n := range 4 {
		fmt.Print(sample.Return(n), " ", sample.Both(n), " ", sample.Is(n), " ", sample.Either(n), " ",
			sample.Cases(n), " ", sample.Called(n), " ", sample.Shapes(n), " ", sample.Checked(n), " ", sample.Received(n), " ",
			sample.Looped(n), " ", sample.Sent(n), " ", sample.Negated(n), "\n")
	}
}
`

// The program is built once, and runs with each mutant. Each mutant changes what it prints.
func TestEachMutantOfTheSampleIsSeen(t *testing.T) {
	t.Parallel()
	var c catalogue
	changed, skipped, err := rewriteGo(&c, "internal/sample", "sample.go", sample)
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	program := buildSample(t, changed, len(c.all))
	as := func(n int) string {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), fmt.Sprintf("PAYONCE_MUTANT=%d", n))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return err.Error()
		}
		return string(out)
	}
	plain := as(0)
	const want = `other false false yes high small square even empty 0 full true
one false false no low two square odd got 0 sent true
other true true yes low small square even empty 1 full false
other false false no three big circle odd empty 3 sent true
`
	if plain != want {
		t.Errorf("without a mutant:\n%s", plain)
	}
	kinds := map[kind]bool{}
	for _, m := range c.all {
		kinds[m.kind] = true
		if as(m.number) == plain {
			t.Errorf("nobody sees %s", m.id())
		}
	}
	var missing []kind
	for _, k := range []kind{
		earlyReturn, never, always, errorCheck, conjunct, disjunct, caseGone, comparison, boundary,
	} {
		if !kinds[k] {
			missing = append(missing, k)
		}
	}
	if len(missing) > 0 {
		t.Errorf("the sample has no mutant of %v: %v", missing, slices.Collect(maps.Keys(kinds)))
	}
}

func buildSample(t *testing.T, source string, count int) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                     "module payonce\n\ngo 1.26.0\n",
		"internal/sample/sample.go":  source,
		"internal/mutant/mutant.go":  switchSource,
		"internal/mutant/changes.go": changesSource(count, nil),
		"main.go":                    sampleMain,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", "sample", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the sample: %v\n%s\n%s", err, out, source)
	}
	return filepath.Join(dir, "sample")
}

func TestConditionsOfAStatement(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string][]string{
		"UPDATE t SET a = 1 WHERE a = 2 AND (b = 3 OR c IS NULL AND NOT d) RETURNING a": {
			"conjunct a = 2", "conjunct (b = 3 OR c IS NULL AND NOT d)", "disjunct b = 3",
			"disjunct c IS NULL AND NOT d", "conjunct c IS NULL", "conjunct NOT d",
		},
		"SELECT 1 FROM t JOIN u ON t.a = u.a LEFT JOIN v ON v.b = t.b WHERE x BETWEEN 1 AND 2 AND y ORDER BY x": {
			"conjunct t.a = u.a", "conjunct v.b = t.b", "conjunct x BETWEEN 1 AND 2", "conjunct y",
		},
		"INSERT INTO t SELECT 1 WHERE NOT EXISTS (SELECT FROM u WHERE u.a = 'WHERE x AND y') ON CONFLICT DO NOTHING": {
			"conjunct NOT EXISTS (SELECT FROM u WHERE u.a = 'WHERE x AND y')", "conjunct u.a = 'WHERE x AND y'",
		},
		"INSERT INTO t SELECT 1 ON CONFLICT (a, b) WHERE c = 1 DO UPDATE SET d = 2 WHERE e": {"conjunct e"},
		"SELECT 1 WHERE TRUE AND a": {"conjunct a"},
		"SELECT count(*) FILTER (WHERE a OR b) FROM t -- WHERE nothing AND more": {
			"conjunct a OR b", "disjunct a", "disjunct b",
		},
		"DELETE FROM t WHERE CASE WHEN a AND b THEN c END AND NOT (d AND e)": {
			"conjunct CASE WHEN a AND b THEN c END", "conjunct NOT (d AND e)", "conjunct d", "conjunct e",
		},
	} {
		var got []string
		for _, c := range conditionsAfter(statement, afterThese) {
			got = append(got, string(c.kind)+" "+statement[c.start:c.end])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", statement, strings.Join(got, "; "), strings.Join(want, "; "))
		}
	}
}

func TestConditionsOfAMigration(t *testing.T) {
	t.Parallel()
	const migration = `-- +goose Up
CREATE TABLE t (
    id uuid PRIMARY KEY, a text CHECK (a = 'x' AND b > 0), u uuid REFERENCES u (id),
    c text CONSTRAINT c_known CHECK (c = 'y'),
    d text GENERATED ALWAYS AS (CASE WHEN a = 'x' THEN 'p' ELSE 'q' END) STORED
);
CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.a <> OLD.a OR NEW.b < 0 THEN RAISE EXCEPTION 'no'; END IF;
    ok := NEW.c IS NULL AND NEW.d;
    RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION guard();
CREATE TRIGGER both AFTER UPDATE ON t FOR EACH ROW WHEN (NEW.a = 'x' AND NEW.b > 0) EXECUTE FUNCTION told();
CREATE TRIGGER gone AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION told();
CREATE UNIQUE INDEX once ON t (a) WHERE b > 0;
-- +goose Down
DROP TABLE t;
`
	var c catalogue
	changes := map[int]change{}
	later := []string{"-- +goose Up\nDROP TRIGGER gone ON t;\nALTER TABLE t DROP CONSTRAINT c_known;\n" +
		"-- +goose Down\nDROP TRIGGER both ON t;\n"}
	mutantsOfMigration(&c, "db/migrations/00999_t.sql", migration, later, changes)
	var got []string
	for _, m := range c.all {
		got = append(got, fmt.Sprintf("%s: %s %s", m.in, m.kind, m.text))
	}
	want := []string{
		"t: conjunct a = 'x'", "t: conjunct b > 0", "t: schema REFERENCES u (id)", "t: disjunct a = 'x'",
		"guard: disjunct NEW.a <> OLD.a OR NEW.b < 0", "guard: disjunct NEW.a <> OLD.a", "guard: disjunct NEW.b < 0",
		"guard: conjunct NEW.c IS NULL", "guard: conjunct NEW.d",
		"guard: schema CREATE TRIGGER guard BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION guard();",
		"both: schema CREATE TRIGGER both AFTER UPDATE ON t FOR EACH ROW WHEN (NEW.a = 'x' AND NEW.b > 0) " +
			"EXECUTE FUNCTION told();",
		"both: conjunct NEW.a = 'x'", "both: conjunct NEW.b > 0",
		"once: schema UNIQUE INDEX", "once: conjunct b > 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if changes[1].file != "00999_t.sql" || changes[1].text != "((a = 'x') OR TRUE)" {
		t.Errorf("the first change is %+v", changes[1])
	}
}

func TestSurvivorLineFitsItsMutantAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "survivors.txt")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# About the file.\n\n# A hint for the planner,\n# never false.\ndb/*: conjunct: key = key || ''\n")
	all, err := readSurvivors(path)
	if err != nil || len(all) != 1 || all[0].reason != "A hint for the planner, never false." {
		t.Fatal(all, err)
	}
	hint := mutant{where: "db/queries/a.sql", in: "Q", kind: conjunct, text: "key = key || ''", nth: 1, hash: "1"}
	other := hint
	other.text, other.hash = "key = other", "2"
	if reasonFor(all, hint) == "" || reasonFor(all, other) != "" {
		t.Error("the line fits another mutant than its own")
	}
	p := plan{mutants: []mutant{hint, other}}
	if err := stale(all, p, map[string]result{"1": {verdict: survived}}); err != nil {
		t.Error(err)
	}
	if err := stale(all, p, map[string]result{"1": {verdict: caught}}); err == nil {
		t.Error("a line for a mutant that a test catches is accepted")
	}
	if err := stale(all, plan{mutants: []mutant{other}}, nil); err == nil {
		t.Error("a line for a place that is gone is accepted")
	}
	write("db/queries/a.sql Q: conjunct: x\n")
	if _, err := readSurvivors(path); err == nil {
		t.Error("a line without a reason is accepted")
	}
}

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
		if found[m.where]++; found[m.where] == 1 {
			if _, err := os.Stat(filepath.Join(root, homeOf(m))); err != nil {
				t.Errorf("the tests of %s: %v", m.where, err)
			}
		}
	}
	for _, where := range append(packages(), "db/queries/idempotency.sql", "db/queries/payments.sql",
		"db/migrations/00112_idempotency_keys.sql", "db/migrations/00113_payments.sql") {
		if found[where] == 0 {
			t.Errorf("%s has no mutant", where)
		}
	}
}
