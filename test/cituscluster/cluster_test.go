package cituscluster

import (
	"context"
	"errors"
	"os"
	"testing"

	"payonce/demo/embeddedpg"
)

func TestCopyOfADatabaseKnowsItsWorkers(t *testing.T) {
	dir, err := os.MkdirTemp(embeddedpg.ScratchDir(), "payonce-citus-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), embeddedpg.Options{DataDir: dir})
	if errors.Is(err, ErrNoCitus) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := c.CreateDatabase(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), c.Coordinator().URL("one"), "CREATE TABLE t (a text PRIMARY KEY)",
		"SELECT create_distributed_table('t', 'a')"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Freeze(t.Context(), "one"),
		c.Everywhere(t.Context(), "CREATE DATABASE two TEMPLATE one")); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), c.Coordinator().URL("two"),
		"INSERT INTO t SELECT n::text FROM generate_series(1, 100) AS n", "TABLE t"); err != nil {
		t.Fatal(err)
	}
}
