package pgtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
)

// scratch is a directory like the one that Share makes.
func scratch(t *testing.T) string {
	t.Helper()
	dir := DataDir(t)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestClusterIsPreparedOnceForAllWhoAskAtTheSameTime(t *testing.T) {
	t.Parallel()
	parent := scratch(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			path, err := prepareIn(t.Context(), parent, "v1", empty)
			if err != nil || path != filepath.Join(parent, "empty-v1") {
				t.Errorf("prepared in %s: %v", path, err)
			}
		})
	}
	all.Wait()
	first := identifier(t, filepath.Join(parent, "empty-v1"))
	if _, err := prepareIn(t.Context(), parent, "v1", empty); err != nil {
		t.Fatal(err)
	}
	if again := identifier(t, filepath.Join(parent, "empty-v1")); again != first {
		t.Errorf("prepared twice: %x, then %x", first, again)
	}
}

// identifier tells two clusters apart: initdb gives each one of its own, and writes it at the beginning of this file.
func identifier(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "pg*", "global", "pg_control"))
	if err != nil || len(found) != 1 {
		t.Fatalf("clusters in %s: %s, %v", dir, found, err)
	}
	control, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(control[:8])
}

func TestUnfinishedClusterIsNotServed(t *testing.T) {
	t.Parallel()
	parent := scratch(t)
	// As a test binary leaves it which was killed while initdb ran.
	left := filepath.Join(parent, "empty-v1.unfinished")
	if err := os.MkdirAll(filepath.Join(left, "pg15", "garbage"), 0o711); err != nil {
		t.Fatal(err)
	}
	path, err := prepareIn(t.Context(), parent, "v1", empty)
	if err != nil {
		t.Fatal(err)
	}
	identifier(t, path)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was unfinished is still there: %v", err)
	}
}

func TestMigratedDirHasTheSchemaAndIsClosedToOthers(t *testing.T) {
	t.Parallel()
	dir := MigratedDir(t)
	found, err := filepath.Glob(filepath.Join(dir, "pg*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("clusters in %s: %s, %v", dir, found, err)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the cluster: %v, %v", info, err)
	}
	var told []string
	o := options(dir, true)
	o.Progress = func(line string) { told = append(told, line) }
	server, err := embeddedpg.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if strings.Contains(strings.Join(told, "\n"), "creating the cluster") {
		t.Errorf("it was not used: %s", told)
	}
	for _, role := range []string{"payonce_api", "payonce_reconciler"} {
		conn, err := pgx.Connect(t.Context(), server.URLAs(role, ownDatabase))
		if err != nil {
			t.Fatal(err)
		}
		var payments int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM payments").Scan(&payments); err != nil {
			t.Errorf("as %s: %v", role, err)
		}
		_ = conn.Close(t.Context())
	}
}

func TestHashFollowsThePrograms(t *testing.T) {
	before, err := schemaHash()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PG_BINDIR", "/elsewhere")
	if after, err := schemaHash(); err != nil || after == before {
		t.Errorf("with other programs, the hash is %s after %s: %v", after, before, err)
	}
}
