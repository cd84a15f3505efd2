package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payonce/lab/world"
)

// Every patch applies to the tree as it is, and gives Go that compiles. That it is caught is what the program itself is
// for.
func TestEveryPatchAppliesAndCompiles(t *testing.T) {
	t.Parallel()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := newCompiler(t, root)
	patches, err := readPatches("patches")
	if err != nil {
		t.Fatal(err)
	}
	const asked = 14 // as many as there have to be
	if len(patches) < asked {
		t.Fatalf("there are %d patches, want at least %d", len(patches), asked)
	}
	for _, p := range patches {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(p.path)
			if err != nil {
				t.Fatal(err)
			}
			p.path = path
			overlay, err := p.apply(t.Context(), root, t.TempDir())
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

diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-old
+new
`

func TestPatchThatNoLongerAppliesIsAnError(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "example.patch")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := parsePatch(example)
	if err != nil {
		t.Fatal(err)
	}
	p.path = file
	for text, applies := range map[string]bool{"old\n": true, "other\n": false} {
		if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.apply(t.Context(), root, t.TempDir()); (err == nil) != applies {
			t.Errorf("to %q: %v", text, err)
		}
	}
	if err := os.Remove(filepath.Join(root, "a.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.apply(t.Context(), root, t.TempDir()); err == nil {
		t.Error("it applies to a file that is not there")
	}
}

func TestPatchSaysWhatItIsAndWhatCatchesIt(t *testing.T) {
	t.Parallel()
	p, err := parsePatch(example)
	if err != nil {
		t.Fatal(err)
	}
	if p.bug != "Nobody looks." || p.removed != "the look." || len(p.catches) != 2 ||
		p.catches[0] != (catch{"matrix", "payment/1"}) || p.catches[1].lab != "chaos" {
		t.Errorf("read as %+v", p)
	}
	for _, left := range []string{"Removed: the look.\n", "Catch: matrix payment/1\nCatch: chaos\n", "--- a/a.txt\n"} {
		if _, err := parsePatch(strings.Replace(example, left, "", 1)); err == nil {
			t.Errorf("accepted without %q", left)
		}
	}
	if _, err := parsePatch(strings.Replace(example, "Catch: chaos", "Catch: luck", 1)); err == nil {
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
	var patches []patch
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		patches = append(patches, patch{name: name, catches: []catch{{lab: "matrix"}}})
	}
	patches = append(patches, patch{name: "slow", catches: []catch{{lab: "chaos"}}})
	draw := func(seed uint64) string {
		chosen, err := settings{Quick: true, Few: 3, Seed: seed}.choose(patches)
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
	if _, err := (settings{Only: "z"}).choose(patches); err == nil {
		t.Error("a patch that there is not is accepted")
	}
}
