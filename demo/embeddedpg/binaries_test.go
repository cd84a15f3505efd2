package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a made-up host: a directory tree and an environment.
type machine struct {
	t   *testing.T
	dir string
	env map[string]string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return machine{t: t, dir: dir, env: map[string]string{}}
}

// host answers "--version" with the content of the program's file.
func (m machine) host() host {
	h := thisHost(func(name string) string { return m.env[name] })
	h.root = m.dir
	h.goos, h.goarch = "linux", "amd64"
	h.run = func(_ context.Context, _ []string, name string, _ ...string) (string, error) {
		content, err := os.ReadFile(name)
		if err != nil || strings.HasPrefix(string(content), "broken") {
			return "", errors.New("does not run")
		}
		return string(content), nil
	}
	return h
}

func (m machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.dir}, parts...)...)
}

// program writes an executable that prints the text.
func (m machine) program(path, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(path)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path(path), []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// postgres puts PostgreSQL's programs into a directory.
func (m machine) postgres(dir, version string) {
	m.t.Helper()
	m.program(filepath.Join(dir, "postgres"), fmt.Sprintf("postgres (PostgreSQL) %s\n", version))
	m.program(filepath.Join(dir, "initdb"), "")
}

func (m machine) link(target, path string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(path)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(m.path(target), m.path(path)); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) finds(want, version string, caches ...string) {
	m.t.Helper()
	got, err := m.host().findBinaries(m.t.Context(), caches)
	if err != nil {
		m.t.Fatalf("find %s: %v", want, err)
	}
	if got.Dir != m.path(want) || got.Version != version {
		m.t.Errorf("found %s in %s, want %s in %s", got.Version, got.Dir, version, m.path(want))
	}
}

func TestEveryUsualPlaceIsSearchedInOrder(t *testing.T) {
	t.Parallel()
	places := []string{
		"cache/postgresql-" + npmVersion + "/bin",
		"Applications/Postgres.app/Contents/Versions/17/bin",
		"home/linuxbrew/.linuxbrew/opt/postgresql@17/bin",
		"usr/local/opt/postgresql@16/bin",
		"opt/homebrew/opt/postgresql@16/bin",
		"usr/lib/postgresql16/bin",
		"usr/libexec/postgresql16",
		"usr/pgsql-16/bin",
		"usr/lib/postgresql/15/bin",
		"by/pg_config",
		"on/path",
		"chosen",
	}
	m := newMachine(t)
	for i, place := range places { // each goes before those that are there already
		version := fmt.Sprintf("15.%d", i)
		m.postgres(place, version)
		switch place {
		case "by/pg_config":
			m.env["PATH"] = m.path("tools")
			m.program("tools/pg_config", m.path(place)+"\n")
		case "on/path":
			m.env["PATH"] = "relative:" + m.path("tools") + ":" + m.path(place)
		case "chosen":
			m.env["PG_BINDIR"] = m.path(place)
		}
		m.finds(place, version, m.path("cache"))
	}
}

func TestNewestVersionOfAPlaceIsTaken(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, version := range []string{"9.6", "14", "100", "17"} {
		m.postgres("usr/lib/postgresql/"+version+"/bin", version+".1")
	}
	m.finds("usr/lib/postgresql/100/bin", "100.1")
}

func TestLinksInPathLeadToTheProgramsThemselves(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.postgres("opt/pg/bin", "16.4 (Homebrew)")
	m.link("opt/pg/bin/postgres", "usr/bin/postgres")
	m.env["PATH"] = m.path("usr/bin")
	m.finds("opt/pg/bin", "16.4")
}

func TestUselessProgramsArePassedOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.program("no-initdb/postgres", "postgres (PostgreSQL) 17.1")
	m.postgres("old", "13.20")
	m.postgres("broken", "17.2")
	m.program("broken/postgres", "broken")
	m.postgres("strange", "x")
	m.program("tools/pg_config", m.path("not/there"))
	m.postgres("relative", "17.3")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, m.path("relative"))
	if err != nil {
		t.Fatal(err)
	}
	m.env["PATH"] = strings.Join([]string{relative, m.path("no-initdb"), m.path("old"), m.path("broken"),
		m.path("strange"), m.path("tools")}, ":")

	_, err = m.host().findBinaries(t.Context(), nil)
	if !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("error = %v, want ErrNotInstalled", err)
	}
	mustContain(t, err.Error(), "PostgreSQL 13.20 in "+m.path("old")+" is too old: 14 or newer is needed",
		"does not run")

	m.postgres("usr/lib/postgresql/18/bin", "18beta1")
	m.finds("usr/lib/postgresql/18/bin", "18beta1")
}

func TestWrongPgBindirIsAnErrorAndNotIgnored(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.postgres("usr/lib/postgresql/17/bin", "17.1")
	m.postgres("old", "13.1")
	for dir, want := range map[string]string{"empty": "find postgres in", "old": "is too old"} {
		m.env["PG_BINDIR"] = m.path(dir)
		_, err := m.host().findBinaries(t.Context(), nil)
		if err == nil {
			t.Fatalf("%s: no error", dir)
		}
		mustContain(t, err.Error(), "PG_BINDIR", m.path(dir), want)
	}
}

func TestRelativePgBindirIsMadeAbsolute(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.postgres("chosen", "17.1")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if m.env["PG_BINDIR"], err = filepath.Rel(here, m.path("chosen")); err != nil {
		t.Fatal(err)
	}
	m.finds("chosen", "17.1")
}

func TestThisMachinesPostgreSQLIsFound(t *testing.T) {
	t.Parallel()
	found, err := thisHost(nil).findBinaries(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if found.Major < minimumMajor || !strings.HasPrefix(found.Version, fmt.Sprint(found.Major)) {
		t.Errorf("found %+v", found)
	}
}
