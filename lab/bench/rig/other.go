package rig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// otherMark is what the programs of another commit are called by, beside those of this tree.
const otherMark = "-other"

// Commit is the full hash of a commit, which may be named as git takes it.
func (r *Rig) Commit(ctx context.Context, ref string) (string, error) {
	out, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("REF=%s is no commit of this repository", ref)
	}
	return strings.TrimSpace(out), nil
}

// NewDatabaseOf builds the programs of another commit, and makes a database by them. From then on, they are what runs
// on it.
func (r *Rig) NewDatabaseOf(ctx context.Context, name, commit string) (*Database, error) {
	tree := r.Path("other")
	switch err := os.Mkdir(tree, 0o755); {
	case errors.Is(err, fs.ErrExist): // built for another section: a run has one REF
		return r.newDatabase(ctx, name, otherMark)
	case err != nil:
		return nil, err
	}
	if _, err := r.git(ctx, "archive", "--format=tar", "-o", tree+".tar", commit); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", tree+".tar", "-C", tree).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("unpack %s: %w: %s", commit, err, out)
	}
	if err := r.build(ctx, tree, otherMark); err != nil {
		return nil, fmt.Errorf("build %s: %w", commit, err)
	}
	return r.newDatabase(ctx, name, otherMark)
}

func (r *Rig) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = filepath.Clean(r.root)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, problems.String())
	}
	return string(out), nil
}

// Keys are up to n keys that the API has completed.
func (d *Database) Keys(ctx context.Context, n int) ([]string, error) {
	rows, err := d.Admin.Query(ctx, "SELECT key FROM idempotency_keys WHERE status = 'completed' ORDER BY key LIMIT $1",
		n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Lose makes n completed payments such as the API leaves whose answer from the PSP was lost. It names columns that the
// schemas of different commits have in common.
func (d *Database) Lose(ctx context.Context, n int) ([]Lost, error) {
	var lost []Lost
	rows, err := d.Admin.Query(ctx,
		"SELECT key, subject FROM idempotency_keys WHERE status = 'completed' AND attempt = 1 ORDER BY created_at LIMIT $1", n)
	if err != nil {
		return nil, err
	}
	if lost, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Lost]); err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(lost))
	for i, l := range lost {
		ids[i] = l.Payment
	}
	if err := d.behindTheGuard(ctx, "lose keys", `UPDATE idempotency_keys SET status = 'unknown', unknown_since = clock_timestamp(),
		reconcile_after = clock_timestamp(), finished_at = NULL, response_status = NULL, response_content_type = NULL, response_location = NULL,
		response_schema_version = NULL, response_body = NULL WHERE subject = ANY ($1)`, ids); err != nil {
		return nil, err
	}
	return lost, d.behindTheGuard(ctx, "lose payments",
		"UPDATE payments SET status = 'processing', psp_charge_id = NULL WHERE id = ANY ($1)", ids)
}
