package embeddedpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// minimumMajor is the oldest major version that the project's SQL is tested with.
const minimumMajor = 14

// ErrNotInstalled says that no usable PostgreSQL was found.
var ErrNotInstalled = errors.New("no PostgreSQL found")

// Binaries is a directory with PostgreSQL's programs of one version.
type Binaries struct {
	Dir     string // absolute, with symbolic links resolved
	Version string // such as 15.18
	Major   int
}

// Path is the absolute path of one of the programs, such as initdb.
func (b Binaries) Path(program string) string { return filepath.Join(b.Dir, program) }

// major is the version that will run: the one found, or the one npm will bring.
func (b Binaries) major() int {
	if b.Dir == "" {
		return npmMajor
	}
	return b.Major
}

// findBinaries looks for PostgreSQL 14 or newer: in PG_BINDIR (and then nowhere
// else), in PATH, in pg_config's directory, where distributions put it, and
// last in the caches given. It errors with ErrNotInstalled when there is none.
func (h host) findBinaries(ctx context.Context, caches []string) (Binaries, error) {
	if dir := h.getenv("PG_BINDIR"); dir != "" {
		found, err := h.inspect(ctx, dir)
		if err != nil {
			return Binaries{}, fmt.Errorf("use PG_BINDIR: %w", err)
		}
		return found, nil
	}
	var refused []error
	for _, dir := range h.candidates(ctx, caches) {
		found, err := h.inspect(ctx, dir)
		switch {
		case err == nil:
			return found, nil
		case !errors.Is(err, os.ErrNotExist):
			refused = append(refused, err)
		}
	}
	if len(refused) > 0 {
		return Binaries{}, fmt.Errorf("%w that can be used: %w", ErrNotInstalled, errors.Join(refused...))
	}
	return Binaries{}, ErrNotInstalled
}

// inspect tells what is in dir, or why it is of no use. Nothing there at all is
// os.ErrNotExist.
func (h host) inspect(ctx context.Context, dir string) (Binaries, error) {
	// A link in PATH may point at the program alone. Only beside the program
	// itself are initdb, and the share and lib directories that it looks for.
	server, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return Binaries{}, fmt.Errorf("find postgres in %s: %w", dir, os.ErrNotExist)
	}
	if server, err = filepath.Abs(server); err != nil { // the server runs in another directory
		return Binaries{}, err
	}
	found := Binaries{Dir: filepath.Dir(server)}
	if !executable(found.Path("postgres")) || !executable(found.Path("initdb")) {
		return Binaries{}, fmt.Errorf("find initdb in %s: %w", found.Dir, os.ErrNotExist)
	}
	out, err := h.run(ctx, nil, found.Path("postgres"), "--version")
	if err != nil {
		return Binaries{}, fmt.Errorf("ask %s for its version: %w", server, err)
	}
	if found.Version, found.Major, err = parseVersion(out); err != nil {
		return Binaries{}, fmt.Errorf("ask %s for its version: %w", server, err)
	}
	if found.Major < minimumMajor {
		return Binaries{}, fmt.Errorf("PostgreSQL %s in %s is too old: %d or newer is needed",
			found.Version, found.Dir, minimumMajor)
	}
	return found, nil
}

var versionPattern = regexp.MustCompile(`\) (([0-9]+)[^ \n]*)`)

// parseVersion reads "postgres (PostgreSQL) 15.18 (Debian …)", "… 18beta1".
func parseVersion(out string) (version string, major int, err error) {
	match := versionPattern.FindStringSubmatch(out)
	if match == nil {
		return "", 0, fmt.Errorf("read version out of %q", lastLines(out, 1))
	}
	major, err = strconv.Atoi(match[2])
	return match[1], major, err
}

// wellKnown lists where packages put PostgreSQL's programs outside PATH. The
// star stands for a version.
var wellKnown = []string{
	"usr/lib/postgresql/*/bin", // Debian, Ubuntu
	"usr/pgsql-*/bin",          // RPMs of postgresql.org
	"usr/libexec/postgresql*",  // Alpine
	"usr/lib/postgresql*/bin",  // Alpine, openSUSE
	"opt/homebrew/opt/postgresql*/bin",
	"usr/local/opt/postgresql*/bin",
	"home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"Applications/Postgres.app/Contents/Versions/*/bin",
}

// candidates lists directories that may hold PostgreSQL, the preferred first.
func (h host) candidates(ctx context.Context, caches []string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(h.getenv("PATH")) {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	if config, ok := h.inPath("pg_config"); ok {
		// pg_config comes with the client library too, so what it names may not
		// exist; then the other places remain.
		if out, err := h.run(ctx, nil, config, "--bindir"); err == nil {
			dirs = append(dirs, strings.TrimSpace(out))
		}
	}
	for _, pattern := range wellKnown {
		dirs = append(dirs, newestFirst(filepath.Join(h.root, pattern))...)
	}
	for _, cache := range caches {
		// Anybody may have put programs into a place that anybody can write to.
		if by := owner(cache); by != 0 && by != h.euid {
			continue
		}
		dirs = append(dirs, filepath.Join(npmDirectory(cache), "bin"))
	}
	return dirs
}

var firstNumber = regexp.MustCompile(`[0-9]+`)

// newestFirst expands a pattern, the highest version first.
func newestFirst(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil // only a malformed pattern errors, and these are ours
	}
	prefix, _, _ := strings.Cut(pattern, "*")
	version := func(path string) int {
		n, _ := strconv.Atoi(firstNumber.FindString(strings.TrimPrefix(path, prefix)))
		return n
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	return found
}
