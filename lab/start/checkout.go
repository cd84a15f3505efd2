package main

import (
	"context"
	"fmt"
	"strings"
)

// checkGit refuses an unpacked archive: git says which files are Payonce's, and which commit they are of.
func (w wish) checkGit(ctx context.Context) error {
	if _, err := w.output(ctx, w.from, "git", "ls-files", "--error-unmatch", "tools/start"); err != nil {
		return fmt.Errorf("%s is no checkout of Payonce: it needs git, and a clone, not an archive: %w", w.from, err)
	}
	return nil
}

// uncommitted is what git says about files that are not as in the commit, a line each.
func (w wish) uncommitted(ctx context.Context) (string, error) {
	status, err := w.output(ctx, w.from, "git", "status", "--short", "--untracked-files=all")
	if err != nil {
		return "", fmt.Errorf("ask what is not committed: %w", err)
	}
	return status, nil
}

// commit is the name of what is copied. Changed files are copied as they are, so they are no commit's.
func (w wish) commit(ctx context.Context) (string, error) {
	commit, err := w.output(ctx, w.from, "git", "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", fmt.Errorf("ask which commit is copied: %w", err)
	}
	status, err := w.uncommitted(ctx)
	if err != nil {
		return "", err
	}
	commit = strings.TrimSpace(commit)
	for line := range strings.Lines(status) {
		if !strings.HasPrefix(line, "??") {
			return commit + "-dirty", nil
		}
	}
	return commit, nil
}
