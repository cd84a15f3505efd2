package windows

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payonce/demo/mockpsp"
	"payonce/docs"
)

func TestWordsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	for _, w := range Stripe().Windows() {
		if words := w.Words(); words.Happened == "" || words.Lost == "" || words.FoundBy == "" {
			t.Errorf("docs/crash_windows.md has no row for window %s: %+v", w.ID, words)
		}
	}
	w, _ := Native().ByID("3b")
	if got := w.Words(); got.Lost != "The answer. The customer may have been charged." {
		t.Errorf("window 3b: %+v", got)
	}
}

func TestGroupsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	for _, g := range Stripe().Groups() {
		_, section, found := strings.Cut(docs.CrashWindows, "\n## "+g.Title)
		section, _, _ = strings.Cut(section, "\n## ")
		for _, w := range g.Windows {
			if number := strings.TrimRight(w.ID, "abc"); !found || !strings.Contains(section, "\n| "+number+" | ") {
				t.Errorf("docs/crash_windows.md has no section %q with window %s", g.Title, w.ID)
			}
		}
	}
}

func TestTokensAreThoseOfTheMockPSP(t *testing.T) {
	t.Parallel()
	for _, w := range Stripe().Windows() {
		if !slices.ContainsFunc(mockpsp.Tokens(), func(token mockpsp.Token) bool { return token.Name == w.Token }) {
			t.Errorf("window %s: the mock PSP has no token %s", w.ID, w.Token)
		}
	}
}

func TestEachWindowCanGoOnAndEachActionEndsSomeHold(t *testing.T) {
	t.Parallel()
	seen := map[Action]bool{}
	for _, w := range Stripe().Windows() {
		if choices := w.Choices(); choices[0].Action != GoOn {
			t.Errorf("window %s begins with %s", w.ID, choices[0].Action)
		}
		for _, c := range w.Choices() {
			seen[c.Action] = true
		}
		if lose := w.allows(LoseAcknowledgement); lose == w.allows(Cut) {
			t.Errorf("window %s: a lost acknowledgement and a cut connection are the same thing after a commit", w.ID)
		}
	}
	for _, a := range []Action{GoOn, Kill, Pause, Cut, LoseAcknowledgement, PSPFails} {
		if !seen[a] {
			t.Errorf("%s can be chosen nowhere", a)
		}
	}
}

// A socket's path is bounded, and what a killed demo has left is of no use.
func TestSocketsOfAKilledDemoAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pgproxy-1", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, "cluster")
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := socketParent(dir); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "cluster" {
		t.Errorf("left are %v: %v", left, err)
	}
	if parent, err := socketParent("/" + strings.Repeat("x", 90)); err != nil || parent != "" {
		t.Errorf("a long path: %q, %v", parent, err)
	}
}
