package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payonce/lab/world"
)

// Every bug applies to the tree as it is, and gives Go that compiles. That it is caught is what the program itself is
// for.
func TestEveryBugAppliesAndCompiles(t *testing.T) {
	t.Parallel()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := newCompiler(t, root)
	tree, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	const asked = 14 // as many as there have to be
	if len(bugs) < asked {
		t.Fatalf("there are %d bugs, want at least %d", len(bugs), asked)
	}
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			overlay, err := b.apply(tree, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for name, copied := range overlay {
				before, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				after, err := os.ReadFile(copied)
				if err != nil {
					t.Fatal(err)
				}
				if string(before) == string(after) {
					t.Errorf("%s is as it was", name)
				}
			}
			if err := c.check(overlay); err != nil {
				t.Error(err)
			}
		})
	}
}

const example = `Nobody looks.
Removed: the look.
Catch: matrix payment/1
Catch: chaos

in Door.open
-old()
+new()
`

func TestBugThatNoLongerAppliesIsAnError(t *testing.T) {
	t.Parallel()
	b, err := parseBug(example)
	if err != nil {
		t.Fatal(err)
	}
	for text, wrong := range map[string]string{
		"package a\n\ntype Door struct{}\n\nfunc old() {}\n\nfunc (d *Door) open() {\n\told()\n}\n": "",
		"package a\n\nfunc (d *Door) open() {\n\tother()\n}\n":                                      "0 times",
		"package a\n\nfunc (d *Door) open() {\n\told()\n\told()\n}\n":                               "2 times",
		"package a\n\nfunc open() {\n\told()\n}\n":                                                  "nothing is named",
		"package a\n\nfunc (d Door) open() {}\n\nfunc (d Door) open() {}\n":                         "put the directory",
	} {
		root := t.TempDir()
		for _, dir := range []string{"cmd", "demo", "internal", "db/migrations"} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, "internal", "a.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tree, err := readTree(root)
		if err != nil {
			t.Fatal(err)
		}
		overlay, err := b.apply(tree, t.TempDir())
		if wrong != "" {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%v, want %q in:\n%s", err, wrong, text)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		planted, err := os.ReadFile(overlay["internal/a.go"])
		if want := strings.Replace(text, "\told()", "new()", 1); err != nil || string(planted) != want {
			t.Errorf("%v, planted:\n%s", err, planted)
		}
	}
}

func TestBugSaysWhatItIsAndWhatCatchesIt(t *testing.T) {
	t.Parallel()
	b, err := parseBug(example)
	if err != nil {
		t.Fatal(err)
	}
	if b.what != "Nobody looks." || b.removed != "the look." || len(b.catches) != 2 ||
		b.catches[0] != (catch{"matrix", "payment/1"}) || b.catches[1].lab != "chaos" {
		t.Errorf("read as %+v", b)
	}
	for _, left := range []string{"Removed: the look.\n", "Catch: matrix payment/1\nCatch: chaos\n", "in Door.open\n"} {
		if _, err := parseBug(strings.Replace(example, left, "", 1)); err == nil {
			t.Errorf("accepted without %q", left)
		}
	}
	if _, err := parseBug(strings.Replace(example, "Catch: chaos", "Catch: luck", 1)); err == nil {
		t.Error("accepted with a lab that there is not")
	}
}

func TestBugThatNobodyCatchesIsAnError(t *testing.T) {
	t.Parallel()
	caught := result{Name: "a", Invariants: []string{"I1"}}
	if err := judge([]result{caught}); err != nil {
		t.Error(err)
	}
	if err := judge([]result{caught, {Name: "b"}}); err == nil || !strings.Contains(err.Error(), "b") {
		t.Errorf("the verdict is %v", err)
	}
}

func TestQuickRunDrawsBySeedAmongThoseOfTheMatrix(t *testing.T) {
	t.Parallel()
	var bugs []bug
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		bugs = append(bugs, bug{name: name, catches: []catch{{lab: "matrix"}}})
	}
	bugs = append(bugs, bug{name: "slow", catches: []catch{{lab: "chaos"}}})
	draw := func(seed uint64) string {
		chosen, err := settings{Quick: true, Few: 3, Seed: seed}.choose(bugs)
		if err != nil || len(chosen) != 3 {
			t.Fatalf("chose %d, %v", len(chosen), err)
		}
		return chosen[0].name + chosen[1].name + chosen[2].name
	}
	if first, again := draw(1), draw(1); first != again {
		t.Errorf("one seed draws %s, then %s", first, again)
	}
	differ := false
	for seed := range uint64(20) {
		differ = differ || draw(seed) != draw(1)
		if strings.Contains(draw(seed), "slow") {
			t.Error("a quick run takes a chaos run")
		}
	}
	if !differ {
		t.Error("the seed decides nothing")
	}
	if _, err := (settings{Only: "z"}).choose(bugs); err == nil {
		t.Error("a bug that there is not is accepted")
	}
}
