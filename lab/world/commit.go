package world

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Commit is the full hash of a commit of the repository at root, which may be named as git takes it.
func Commit(ctx context.Context, root, ref string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s is no commit of this repository", ref)
	}
	return strings.TrimSpace(string(out)), nil
}

// CheckOut puts the files of a commit into dir.
func CheckOut(ctx context.Context, root, commit, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		in   string
		args []string
	}{
		{root, []string{"git", "archive", "--format=tar", "-o", dir + ".tar", commit}},
		{dir, []string{"tar", "-xf", dir + ".tar"}},
	} {
		cmd := exec.CommandContext(ctx, step.args[0], step.args[1:]...)
		cmd.Dir = step.in
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("check out %s: %s: %w\n%s", commit, step.args[0], err, out)
		}
	}
	return nil
}
