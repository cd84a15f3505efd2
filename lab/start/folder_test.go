package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payonce/internal/cli"
)

// halfCopied is an empty folder, the folder in it in which a copy is made, and the copy.
func halfCopied(t *testing.T) (dir, half, whole string) {
	t.Helper()
	dir = t.TempDir()
	half = filepath.Join(dir, ".start-1")
	whole = filepath.Join(half, "whole")
	if err := errors.Join(write(whole, "go.mod", nil), write(whole, ".github/ci.yml", nil)); err != nil {
		t.Fatal(err)
	}
	return dir, half, whole
}

// A shell that is in the folder would stay in one that is gone.
func TestFolderThatIsThereIsFilled(t *testing.T) {
	t.Parallel()
	dir, half, whole := halfCopied(t)
	if err := fill(dir, half, whole); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", ".github/ci.yml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatCameMeanwhileIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir, half, whole := halfCopied(t)
	if err := write(dir, "go.mod", []byte("another's")); err != nil {
		t.Fatal(err)
	}
	err := fill(dir, half, whole)
	content, _ := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err == nil || string(content) != "another's" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestLinkToAFolderIsFollowed(t *testing.T) {
	t.Parallel()
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if w, err := asked(t, "", link, module); err != nil || w.dir != real(dir) {
		t.Errorf("%s, %v", w.dir, err)
	}
}

func TestNameIsOneThatDockerTakes(t *testing.T) {
	t.Parallel()
	for module, want := range map[string]string{
		"example.com/shop/Pay": "pay", "example.com/pay/v2": "pay", "example.com/_pay_~": "pay",
		"example.com/~": "service", "pay.example": "pay-example", "example.com/a_b": "a-b",
	} {
		if got := (wish{module: module}).name(); got != want {
			t.Errorf("%s is %q, want %q", module, got, want)
		}
	}
}

func TestPathIsOneWordOfAShell(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/srv/pay-2": "/srv/pay-2", "/srv/my pay": "'/srv/my pay'", "/srv/ann's": `'/srv/ann'\''s'`, "/$a": "'/$a'",
	} {
		if got := quoted(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// checkout is a repository with one commit.
func checkout(t *testing.T) wish {
	t.Helper()
	w := wish{from: t.TempDir()}
	if err := write(w.from, "tools/start", nil); err != nil {
		t.Fatal(err)
	}
	in(t, w.from, "git", "init", "-q")
	in(t, w.from, "git", "add", ".")
	in(t, w.from, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "a")
	return w
}

// Nobody could find what is in no commit by the commit's name.
func TestChangedFilesMakeTheCommitDirty(t *testing.T) {
	t.Parallel()
	w := checkout(t)
	for _, step := range []struct {
		file  string
		dirty bool
		says  string
	}{
		{"", false, ""},
		{"new", false, "?? new\n"}, // It is not copied.
		{"tools/start", true, " M tools/start\n?? new\n"},
	} {
		if step.file != "" {
			if err := write(w.from, step.file, []byte("changed")); err != nil {
				t.Fatal(err)
			}
		}
		commit, err := w.commit(t.Context())
		if err != nil || strings.HasSuffix(commit, "-dirty") != step.dirty {
			t.Errorf("with %q it is commit %s, %v", step.file, commit, err)
		}
		if says, err := w.uncommitted(t.Context()); err != nil || says != step.says {
			t.Errorf("with %q git says %q, %v", step.file, says, err)
		}
	}
	var stderr bytes.Buffer
	err := run(t.Context(), []string{"--from", w.from, filepath.Join(t.TempDir(), "pay"), module},
		func(string) string { return "" }, io.Discard, &stderr)
	if err == nil || !strings.Contains(stderr.String(), " M tools/start") { // It has nothing that makes a copy.
		t.Errorf("a person reads %q, %v", stderr.String(), err)
	}
}

func TestArchiveIsNoCheckout(t *testing.T) {
	t.Parallel()
	inner := filepath.Join(checkout(t).from, "unpacked") // in somebody's repository
	for _, from := range []string{t.TempDir(), inner} {
		if err := write(from, "tools/start", nil); err != nil {
			t.Fatal(err)
		}
		_, err := readWish(t.Context(), []string{"--from", from, filepath.Join(t.TempDir(), "pay"), module},
			func(string) string { return "" })
		if cli.Code(err) != 1 || !strings.Contains(err.Error(), "not an archive") {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// What only the core lacks is said in its README alone, with the statement of the page.
func TestReadmeOfTheCoreSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	for _, rings := range []string{"core", "core,operations"} {
		w, err := asked(t, rings, filepath.Join(t.TempDir(), "pay"), module)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := w.leave(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, says := strings.Cut(string(readme), "psql ")
		statement, _, _ := strings.Cut(rest, "```")
		if says == w.operations || strings.Contains(string(readme), "<!--") {
			t.Errorf("%s:\n%s", rings, readme)
		}
		page, err := os.ReadFile(filepath.Join(w.from, "docs", "start.md"))
		if err != nil || !strings.Contains(string(page), statement) {
			t.Errorf("docs/start.md has another statement than %s, %v", statement, err)
		}
	}
}
