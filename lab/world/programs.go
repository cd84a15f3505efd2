package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs.
const (
	API        = "api"
	Reconciler = "reconciler"
	MockPSP    = "mockpsp"
)

// Programs are built ones, in a directory.
type Programs struct{ dir string }

// Path of one of them.
func (p Programs) Path(name string) string { return filepath.Join(p.dir, name) }

// Build builds the programs into dir. The overlay replaces source files by others for this build alone, both by their
// paths; without one the programs are unchanged. A file that would be replaced has to exist: go build would add it
// without a word.
func Build(ctx context.Context, root, dir string, overlay map[string]string) (Programs, error) {
	if len(overlay) == 0 {
		return BuildOver(ctx, root, dir, "")
	}
	file, err := WriteOverlay(root, dir, overlay)
	if err != nil {
		return Programs{}, err
	}
	return BuildOver(ctx, root, dir, file)
}

// BuildOver is Build with the file of an overlay, or with "".
func BuildOver(ctx context.Context, root, dir, overlay string) (Programs, error) {
	args := []string{"build", "-buildvcs=false", "-ldflags=-w", "-o", dir + string(filepath.Separator)}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/api", "./cmd/reconciler", "./cmd/mockpsp")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return Programs{}, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return Programs{dir}, nil
}

// FindOrBuild takes the programs from a directory, if one is given. Otherwise it builds them below dir.
func FindOrBuild(ctx context.Context, given, dir string, say func(string)) (Programs, error) {
	if given != "" {
		return Existing(given)
	}
	root, err := Root(ctx)
	if err != nil {
		return Programs{}, err
	}
	say("building the programs")
	return Build(ctx, root, filepath.Join(dir, "bin"), nil)
}

// WriteOverlay writes the file for go build -overlay into dir. Each file that it replaces must be there.
func WriteOverlay(root, dir string, overlay map[string]string) (string, error) {
	replace := map[string]string{}
	for old, by := range overlay {
		if !filepath.IsAbs(old) {
			old = filepath.Join(root, old)
		}
		if _, err := os.Stat(old); err != nil {
			return "", fmt.Errorf("find what the overlay replaces: %w", err)
		}
		replace[old] = by
	}
	return WriteAdded(dir, replace)
}

// WriteAdded is WriteOverlay for files that need not be there. Their paths are absolute.
func WriteAdded(dir string, replace map[string]string) (string, error) {
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, raw, 0o600)
}

// Root is the directory of the product's module, the root of the checkout. The program may run in any module there that
// needs the product.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "payonce").Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return "", fmt.Errorf("find the source tree: run this in a checkout of Payonce: %s",
			strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("find the source tree: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Existing are programs that somebody else has built.
func Existing(dir string) (Programs, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Programs{}, err
	}
	for _, name := range []string{API, Reconciler, MockPSP} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return Programs{}, fmt.Errorf("find the programs: %w", err)
		}
	}
	return Programs{dir}, nil
}

func (w *World) programs() Programs {
	if w.plan.Programs != nil {
		return *w.plan.Programs
	}
	return w.site.Programs
}
