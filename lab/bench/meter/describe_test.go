package meter

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"payonce/lab/bench/report"
	"payonce/test/pgtest"
)

func TestDescriptionHasTheServersSettingsAndNotOurSessionsNorPlaces(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	conn := connect(t, server.URL("postgres")+"&work_mem=123MB")
	run(t, conn, "SET enable_sort = off")
	machine, err := Describe(t.Context(), conn, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(machine.PostgreSQL, server.Version()) || machine.Go != runtime.Version() ||
		machine.Cores < 1 {
		t.Errorf("%+v", machine)
	}
	for _, want := range []report.Setting{{Name: "max_connections", Value: "300"},
		{Name: "shared_buffers", Value: "32MB"}, {Name: "jit", Value: "off"}} {
		if !slices.Contains(machine.PostgreSQLSettings, want) {
			t.Errorf("%v is not among the settings %v", want, machine.PostgreSQLSettings)
		}
	}
	for _, setting := range machine.PostgreSQLSettings {
		if setting.Name == "work_mem" || setting.Name == "enable_sort" || setting.Name == "unix_socket_directories" ||
			strings.HasPrefix(setting.Value, "/") {
			t.Errorf("%v says nothing of the server", setting)
		}
	}
}

func TestDescriptionGoesWithoutAServerAndWithoutGit(t *testing.T) {
	t.Parallel()
	machine, err := Describe(t.Context(), nil, t.TempDir())
	if err != nil || machine.PostgreSQL != "" || machine.Commit != "" || machine.Dirty || machine.Go == "" {
		t.Errorf("%+v (%v)", machine, err)
	}
}

func TestDescriptionTellsACleanCheckoutFromADirtyOne(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git",
			append([]string{"-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false"},
				args...)...)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, output)
		}
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message", "nothing")
	clean, err := Describe(t.Context(), nil, dir)
	if err != nil || len(clean.Commit) != 40 || clean.Dirty {
		t.Errorf("commit %q, dirty %t (%v), want a clean commit", clean.Commit, clean.Dirty, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dirty, err := Describe(t.Context(), nil, dir)
	if err != nil || dirty.Commit != clean.Commit || !dirty.Dirty {
		t.Errorf("commit %q, dirty %t (%v), want the same commit, dirty", dirty.Commit, dirty.Dirty, err)
	}
}
