package embeddedpg

import (
	"cmp"
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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
