package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"payonce/lab/world"
)

// added are the migrations that the new version brings: what a release may add.
func added() []string {
	return []string{`-- +goose Up
ALTER TABLE payments ADD COLUMN rolling_note text;
CREATE TABLE rolling_notes (id bigint PRIMARY KEY, note text NOT NULL);

-- +goose Down
DROP TABLE rolling_notes;
ALTER TABLE payments DROP COLUMN rolling_note;
`, `-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS payments_rolling_note;
CREATE INDEX CONCURRENTLY payments_rolling_note ON payments (rolling_note);

-- +goose Down
DROP INDEX CONCURRENTLY payments_rolling_note;
`}
}

// versions are the programs of both, and the name of the old one.
type versions struct {
	name     string
	old, new world.Programs
	schema   int // the new one's
}

func build(ctx context.Context, ref, dir string, say func(string)) (v versions, err error) {
	root, err := world.Root(ctx)
	if err != nil {
		return v, err
	}
	if ref == "" {
		ref = newestRelease(ctx, root)
	}
	tree := root
	if ref != "" {
		tree = filepath.Join(dir, "old-tree")
		commit, err := world.Commit(ctx, root, ref)
		if err != nil {
			return v, fmt.Errorf("OLD=%w", err)
		}
		if err := world.CheckOut(ctx, root, commit, tree); err != nil {
			return v, err
		}
	}
	v.name = nameOf(ctx, root, ref)
	say("building " + v.name)
	if v.old, err = world.Build(ctx, tree, filepath.Join(dir, "old"), nil); err != nil {
		return v, err
	}
	say("building this tree, with two more migrations")
	v.new, v.schema, err = buildNew(ctx, root, filepath.Join(dir, "new"))
	return v, err
}

// newestRelease is the tag of the last release before this tree, or "" if there is none. A tag of this commit is this
// tree's own.
func newestRelease(ctx context.Context, root string) string {
	out, err := gitIn(ctx, root, "-c", "versionsort.suffix=-", "tag", "--list", "v*", "--merged", "HEAD",
		"--no-contains", "HEAD", "--sort=-version:refname")
	if err != nil {
		return ""
	}
	newest, _, _ := strings.Cut(out, "\n")
	return newest
}

// nameOf says what the old version is, and if it differs from this tree by the migrations alone.
func nameOf(ctx context.Context, root, ref string) string {
	const same = "this tree without two migrations"
	if ref == "" {
		return same
	}
	if _, err := gitIn(ctx, root, "diff", "--quiet", ref, "--"); err != nil {
		return ref
	}
	return ref + ", which is " + same
}

func gitIn(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildNew builds the tree as it is, and the migrations as if they were there. It returns the version of the last one.
func buildNew(ctx context.Context, root, dir string) (_ world.Programs, schema int, err error) {
	overlay, schema, err := writeAdded(filepath.Join(root, "db", "migrations"), dir)
	if err != nil {
		return world.Programs{}, 0, err
	}
	programs, err := world.BuildOver(ctx, root, dir, overlay)
	return programs, schema, err
}

// writeAdded writes the migrations into dir, and the file for go build -overlay that puts them behind those in
// migrations.
func writeAdded(migrations, dir string) (overlay string, last int, err error) {
	next, err := nextVersion(migrations)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", 0, err
	}
	replace := map[string]string{}
	for i, sql := range added() {
		last = next + i
		name := fmt.Sprintf("%05d_rolling.sql", last)
		replace[filepath.Join(migrations, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(sql), 0o600); err != nil {
			return "", 0, err
		}
	}
	overlay, err = world.WriteAdded(dir, replace)
	return overlay, last, err
}

// nextVersion is the number after those of the migrations in dir.
func nextVersion(dir string) (int, error) {
	names, err := filepath.Glob(filepath.Join(dir, "[0-9]*_*.sql"))
	if err != nil || len(names) == 0 {
		return 0, errors.Join(err, errors.New("there are no migrations in "+dir))
	}
	number, _, _ := strings.Cut(filepath.Base(names[len(names)-1]), "_") // Glob sorts, and all have the same length.
	last, err := strconv.Atoi(number)
	return last + 1, err
}
