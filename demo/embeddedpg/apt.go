package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// installFromApt installs Debian's package without the cluster that it comes
// with: that one would start at once, take port 5432 and stay after us.
func (h host) installFromApt(ctx context.Context, apt string, progress func(string)) error {
	progress("installing PostgreSQL (apt-get install postgresql) …")
	// A stale or partly failing package list may still be good enough, so this
	// error counts only if the installation fails too.
	_, updateErr := h.run(ctx, aptEnv, apt, "update", "-q")
	install := func(name string) error {
		_, err := h.run(ctx, aptEnv, apt, "install", "-y", "-q", "--no-install-recommends",
			"-o", "DPkg::Lock::Timeout=300", name)
		return err
	}
	// The file that says "no cluster" belongs to postgresql-common, which must
	// therefore be there before the server's package is.
	if err := install("postgresql-common"); err != nil {
		return fmt.Errorf("install postgresql-common: %w", errors.Join(err, updateErr))
	}
	restore, err := h.forbidMainCluster()
	if err != nil {
		return fmt.Errorf("disable the distribution's cluster: %w", err)
	}
	if err := install("postgresql"); err != nil {
		return fmt.Errorf("install postgresql: %w", errors.Join(err, updateErr, restore()))
	}
	return restore()
}

var aptEnv = []string{"DEBIAN_FRONTEND=noninteractive"}

// forbidMainCluster tells Debian's scripts to create no cluster. The function
// that it returns puts the administrator's file back.
func (h host) forbidMainCluster() (restore func() error, err error) {
	path := filepath.Join(h.root, "etc/postgresql-common/createcluster.conf")
	before, err := os.ReadFile(path)
	restore = func() error { return os.WriteFile(path, before, 0o644) }
	if errors.Is(err, os.ErrNotExist) {
		restore = func() error { return os.Remove(path) }
	} else if err != nil {
		return nil, err
	}
	// The last assignment counts.
	without := string(before) + "\ncreate_main_cluster = false\n"
	return restore, os.WriteFile(path, []byte(without), 0o644)
}
