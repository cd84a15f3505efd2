package main

import (
	"slices"
	"strings"
	"testing"
)

// quick are the variants with the fewest states. The design itself takes `make model`.
func quick(t *testing.T) []variant {
	t.Helper()
	if err := toolsAreThere(); err != nil {
		t.Skip(err)
	}
	chosen, err := choose(variants(), []string{"no-fence", "no-window", "no-cancel", "same-object-again"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range chosen {
		chosen[i].few = true
	}
	return chosen
}

func TestWithoutItsGuardAClaimBreaks(t *testing.T) {
	t.Parallel()
	for _, v := range quick(t) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r, err := check(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			if r.failed != v.breaks {
				t.Errorf("breaks %q, want %q", r.failed, v.breaks)
			}
			if !slices.Contains(r.steps, "request 0: takes the key as attempt 1") {
				t.Errorf("the counterexample does not begin with a request:\n%s", r.story())
			}
		})
	}
}

func TestVariantsAreOfAModelThatIsThere(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, v := range variants() {
		if _, err := promela.ReadFile(v.model); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		if seen[v.name] {
			t.Errorf("%s is there twice", v.name)
		}
		seen[v.name] = true
	}
}

func TestUnexpectedVerdictIsAnError(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it searches the model")
	}
	v := quick(t)[0]
	v.breaks = ""
	var out strings.Builder
	if err := checkAll(t.Context(), []variant{v}, false, &out); err == nil {
		t.Error("a design that does not hold passed")
	}
	if !strings.HasPrefix(out.String(), "!! "+v.name) {
		t.Errorf("the report does not mark it:\n%s", out.String())
	}
}

func TestCutSearchIsNoProof(t *testing.T) {
	t.Parallel()
	for name, out := range map[string]string{
		"memory": "pan: reached -DMEMLIM bound\nWarning: Search not completed\nState-vector 116 byte, depth reached 9, errors: 0\n",
		"depth":  "error: max search depth too small\nState-vector 116 byte, depth reached 9, errors: 1\n",
		"killed": "",
	} {
		if finished(out) {
			t.Errorf("%s: passed for finished", name)
		}
	}
	if !finished("(Spin Version 6.5.2)\nState-vector 116 byte, depth reached 9, errors: 0\n") {
		t.Error("a whole search did not pass for one")
	}
}

func TestRowOfTheReport(t *testing.T) {
	t.Parallel()
	v := variant{name: "no-fence", says: "the owner writes without a guard", breaks: completedFinal}
	for want, r := range map[string]result{
		"| `no-fence` | the owner writes without a guard | fails: `I3_completed_is_final` | 12 |\n": {variant: v,
			failed: completedFinal, states: 12},
		"| `no-fence` | the owner writes without a guard | **not as expected**: holds | 12 |\n": {variant: v, states: 12},
	} {
		if got := r.row(); got != want {
			t.Errorf("the row is %q, want %q", got, want)
		}
	}
}
