package embeddedpg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKilledInitdbIsRedone(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	dir := newDir(t)
	left := filepath.Join(dir, unfinished+"123")
	if err := os.MkdirAll(filepath.Join(left, "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	startIn(t, thisHost(nil), Options{DataDir: dir})
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
	content, err := os.ReadFile(filepath.Join(clusterIn(t, dir), marker))
	if err != nil || len(content) == 0 {
		t.Errorf("marker = %q, %v", content, err)
	}
}

func TestClusterWithoutMarkerIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	found, err := thisHost(nil).findBinaries(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(clusterDirectory(dir, found.Major), "precious")
	if err := os.MkdirAll(filepath.Dir(foreign), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("error = %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

func TestClusterAndSocketAreClosedToOthers(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	startIn(t, thisHost(nil), Options{DataDir: dir})
	for _, closed := range []string{clusterIn(t, dir), filepath.Join(dir, "run"),
		filepath.Join(dir, "run", socketFile)} {
		info, err := os.Stat(closed)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, want 0700", closed, info.Mode().Perm())
		}
	}
}

func TestLongDataDirectoryGetsAShortSocket(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	dir := filepath.Join(newDir(t), strings.Repeat("long/", 20), "data")
	s := startIn(t, thisHost(nil), Options{DataDir: dir})
	query(t, s.URL("postgres"), "SELECT 1")
	socket := s.socket.dir
	if strings.HasPrefix(socket, dir) || !s.socket.temporary {
		t.Errorf("socket in %s", socket)
	}
	stop(t, s)
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("%s was left behind: %v", socket, err)
	}
}

func TestSocketPathFitsEverySystem(t *testing.T) {
	t.Parallel()
	base, h := newDir(t), thisHost(nil)
	as := account{kind: ourselves}
	for length, fits := range map[int]bool{maxSocketPath: true, maxSocketPath + 1: false} {
		dir := filepath.Join(base, strings.Repeat("x", length-len(filepath.Join(base, "", socketFile))-1))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		err := h.checkSocket(t.Context(), as, socketDirectory{dir: dir})
		if (err == nil) != fits {
			t.Errorf("path of %d bytes: %v", length, err)
		}
	}
}

func TestOneLogOfAnEarlierStartIsKept(t *testing.T) {
	t.Parallel()
	dir := newCluster(t)
	for range 3 {
		stop(t, startIn(t, thisHost(nil), Options{DataDir: dir}))
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log*"))
	if err != nil || len(logs) != 2 {
		t.Errorf("logs = %q, %v; want two", logs, err)
	}
}
