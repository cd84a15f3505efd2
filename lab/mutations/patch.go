package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// patch is one planted bug.
type patch struct {
	name    string // of the file, without its ending
	path    string
	bug     string   // the first line
	removed string   // the guard
	files   []string // that it changes
	catches []catch  // what is tried
}

// catch is one run that may find the bug.
type catch struct{ lab, only string }

func (c catch) String() string { return strings.TrimSpace(c.lab + " " + c.only) }

const (
	removedMark = "Removed: "
	catchMark   = "Catch: "
)

var changedFile = regexp.MustCompile(`(?m)^--- a/(\S+)$`)

// readPatches reads all of a directory, in the order of their names.
func readPatches(dir string) ([]patch, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there are no patches in %s", dir)
	}
	var patches []patch
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		p, err := parsePatch(string(raw))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
		}
		p.path, p.name = path, strings.TrimSuffix(filepath.Base(path), ".patch")
		patches = append(patches, p)
	}
	return patches, nil
}

func parsePatch(text string) (patch, error) {
	var p patch
	prose, _, found := strings.Cut(text, "\ndiff --git ")
	if !found {
		return p, errors.New("it changes nothing")
	}
	p.bug, _, _ = strings.Cut(prose, "\n")
	for line := range strings.Lines(prose) {
		line = strings.TrimSpace(line)
		if rest, is := strings.CutPrefix(line, removedMark); is {
			p.removed = rest
		}
		if rest, is := strings.CutPrefix(line, catchMark); is {
			lab, only, _ := strings.Cut(rest, " ")
			p.catches = append(p.catches, catch{lab, strings.TrimSpace(only)})
		}
	}
	for _, m := range changedFile.FindAllStringSubmatch(text, -1) {
		p.files = append(p.files, m[1])
	}
	unknown := slices.ContainsFunc(p.catches, func(c catch) bool { return c.lab != "matrix" && c.lab != "chaos" })
	switch {
	case p.bug == "" || p.removed == "":
		return p, errors.New(`it does not say what the bug is, or which guard it removes ("Removed: …")`)
	case len(p.catches) == 0 || unknown:
		return p, errors.New(`it does not say what catches it ("Catch: matrix …" or "Catch: chaos")`)
	case len(p.files) == 0:
		return p, errors.New("it changes no file")
	}
	return p, nil
}

// apply changes copies of the files below dir, and tells which copy stands for which file of the tree at root. It is
// strict: a hunk whose surroundings have changed does not apply.
func (p patch) apply(ctx context.Context, root, dir string) (map[string]string, error) {
	overlay := map[string]string{}
	for _, name := range p.files {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("%s no longer applies: %w", p.name, err)
		}
		copied := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(copied, raw, 0o600); err != nil {
			return nil, err
		}
		overlay[name] = copied
	}
	cmd := exec.CommandContext(ctx, "git", "apply", p.path)
	cmd.Dir = dir
	// the copies are no part of a repository
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s no longer applies: %w\n%s", p.name, err, out)
	}
	return overlay, nil
}
