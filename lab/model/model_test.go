package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// quick are the variants with the fewest states. The design itself takes `make model`.
func quick(t *testing.T) []variant {
	t.Helper()
	if err := toolsAreThere(); err != nil {
		t.Skip(err)
	}
	chosen, err := choose(variants(), []string{"no-fence", "no-window", "no-cancel", "same-object-again",
		"no-tombstone", "any-generation", "refund-no-lock"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range chosen {
		chosen[i].few = true
	}
	return chosen
}

func TestWithoutItsGuardAClaimBreaks(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it searches seven models")
	}
	t.Parallel()
	for _, v := range quick(t) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r, err := check(t.Context(), promela, v)
			if err != nil {
				t.Fatal(err)
			}
			if r.failed != v.breaks {
				t.Errorf("breaks %q, want %q", r.failed, v.breaks)
			}
			if !slices.ContainsFunc(r.steps, func(step string) bool {
				return strings.HasPrefix(step, "request ") && strings.Contains(step, "takes the key as attempt 1")
			}) {
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

// If a variant names a macro that no model has, it takes no guard away. If it also has to hold, it holds, and this
// proves nothing.
func TestEachMacroOfAVariantIsInItsModels(t *testing.T) {
	t.Parallel()
	text := strings.Join(slices.Collect(maps.Values(models(t))), "")
	for _, v := range variants() {
		for _, macro := range v.macros {
			name, _, _ := strings.Cut(macro, "=")
			tested := regexp.MustCompile(`#(if|elif|ifdef|ifndef)( defined\()? *` + name + `\b`)
			if !tested.MatchString(text) {
				t.Errorf("%s: no model has %s", v.name, name)
			}
		}
	}
}

// models are the texts of the models, by file.
func models(t *testing.T) map[string]string {
	t.Helper()
	files, err := promela.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range files {
		text, err := promela.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[f.Name()] = string(text)
	}
	return texts
}

// What Spin says of the edges is worth nothing if a model can move a key in another way.
func TestModelsMoveKeysByTheListedEdgesOnly(t *testing.T) {
	t.Parallel()
	write := regexp.MustCompile(`(?m)^.*\bstatus(\[\w+\])? *(=[^=]|\+\+|--).*$`)
	for name, text := range models(t) {
		for _, line := range write.FindAllString(text, -1) {
			if !strings.HasPrefix(line, "mtype ") {
				t.Errorf("%s writes a status itself: %s", name, line)
			}
		}
	}
}

func TestDesignThatLeavesTheListedEdgesFails(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it searches the model")
	}
	quick(t) // skips without the tools
	edited := fstest.MapFS{}
	for name, text := range models(t) {
		text = regexp.MustCompile(`(?m)^.*TOOK\("LoseKey: .*\n`).ReplaceAllString(text, "")
		edited[name] = &fstest.MapFile{Data: []byte(text)}
	}
	r, err := check(t.Context(), edited, variant{name: "refunds", model: refundsModel})
	if err != nil {
		t.Fatal(err)
	}
	if r.failed != "edge_is_listed" {
		t.Errorf("without the edge of LoseKey, the design breaks %q", r.failed)
	}
}

func TestEdgeThatNoDesignTakesIsReported(t *testing.T) {
	t.Parallel()
	listed, err := edgesListed()
	if err != nil || len(listed) < 14 {
		t.Fatalf("edges %v, %v", listed, err)
	}
	var results []result
	for _, v := range variants() {
		if v.breaks == "" {
			results = append(results, result{variant: v, edges: listed[1:]})
		}
	}
	if got := notTaken(listed, results[:1]); len(got) > 0 {
		t.Errorf("one model was searched, and %v are reported", got)
	}
	if got := notTaken(listed, results); !slices.Equal(got, listed[:1]) {
		t.Errorf("%v are reported, want %v", got, listed[:1])
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
	if err := checkAll(t.Context(), []variant{v}, &out); err == nil {
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
