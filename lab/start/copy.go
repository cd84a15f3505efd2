package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"payonce/test/archtest"
)

const (
	ours    = "payonce" // our module's path
	queries = "db/queries/"
	// starter runs all in one process, and is a command of its own in the copy.
	starter, local = "lab/grade/payonce/", "cmd/local/"
	ownerMode      = 0o755
	fileMode       = 0o644
)

// make makes the copy under another name first, so that half a copy is never left.
func (w wish) make(ctx context.Context) (counts, error) {
	parent := filepath.Dir(w.dir)
	if _, err := os.Stat(w.dir); err == nil {
		parent = w.dir // The copy must not cross file systems, and nobody may have rights to the parent.
	}
	if err := os.MkdirAll(parent, ownerMode); err != nil {
		return counts{}, fmt.Errorf("make the folder: %w", err)
	}
	half, err := os.MkdirTemp(parent, ".start-")
	if err != nil {
		return counts{}, fmt.Errorf("make the folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(half) }()
	whole := filepath.Join(half, "whole") // with the usual rights
	counted, err := w.copyTo(ctx, whole)
	if err != nil {
		return counts{}, err
	}
	if parent == w.dir {
		return counted, fill(w.dir, half, whole)
	}
	if err := os.Rename(whole, w.dir); err != nil {
		return counts{}, fmt.Errorf("name the copy: %w", err)
	}
	return counted, nil
}

// fill moves what is in whole into dir, where only half may be. The folder itself stays: a shell may be in it.
func fill(dir, half, whole string) error {
	there, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the folder: %w", err)
	}
	if len(there) != 1 || there[0].Name() != filepath.Base(half) {
		return fmt.Errorf("something came into %s meanwhile: nothing is copied there", dir)
	}
	entries, err := os.ReadDir(whole)
	if err != nil {
		return fmt.Errorf("list the copy: %w", err)
	}
	for _, entry := range entries {
		if err := os.Rename(filepath.Join(whole, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("fill the folder: %w", err)
		}
	}
	return nil
}

func (w wish) copyTo(ctx context.Context, dir string) (counts, error) {
	var counted counts
	asked := map[string]string{} // packages of ours, and a file that imports each
	listed, err := w.output(ctx, w.from, "git", "ls-files", "-z")
	if err != nil {
		return counted, fmt.Errorf("list Payonce's files: %w", err)
	}
	config, err := w.cutSQLC()
	if err != nil {
		return counted, err
	}
	for name := range strings.SplitSeq(strings.Trim(listed, "\x00"), "\x00") {
		kind := w.kindOf(name, config)
		if kind == "" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(w.from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return counted, fmt.Errorf("read Payonce's file: %w", err)
		}
		to := w.placeOf(name)
		if path.Ext(name) == ".go" {
			if content, err = w.rename(name, content, asked); err != nil {
				return counted, err
			}
		}
		if err := write(dir, to, content); err != nil {
			return counted, err
		}
		counted.add(kind, to, content)
	}
	if err := checkImports(dir, asked); err != nil {
		return counted, err
	}
	if err := write(dir, "sqlc.yaml", []byte(config)); err != nil {
		return counted, err
	}
	if err := w.leave(ctx, dir); err != nil {
		return counted, err
	}
	return counted, w.finish(ctx, dir)
}

// kindOf is what a file is counted as, or "" if it stays.
func (w wish) kindOf(name, sqlc string) string {
	ring := archtest.RingOf(name)
	switch {
	case name == places["released.txt"]:
		return "" // Nobody has deployed the new service yet.
	case strings.HasPrefix(name, starter), archtest.Supports(name),
		w.operations && strings.HasPrefix(name, "demo/mockpsp/stripe/") && !strings.HasSuffix(name, "_stage_test.go"):
		return support
	case ring == 0:
		return core
	case ring == 1 && w.operations:
		return operations
	case strings.HasPrefix(name, queries) && strings.Contains(sqlc, name),
		slices.Contains([]string{"LICENSE", "go.mod", "go.sum", "tools/go.mod", "tools/go.sum"}, name):
		return other
	}
	return ""
}

// placeOf is where a file is in the copy.
func (w wish) placeOf(name string) string {
	if rest, is := strings.CutPrefix(name, starter); is {
		return local + rest
	}
	return name
}

func write(dir, name string, content []byte) error {
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), ownerMode); err != nil {
		return fmt.Errorf("make a folder of the copy: %w", err)
	}
	if err := os.WriteFile(file, content, fileMode); err != nil {
		return fmt.Errorf("write the copy: %w", err)
	}
	return nil
}

// rename gives the imports of our packages the path of the new module, and notes them.
func (w wish) rename(name string, content []byte, asked map[string]string) ([]byte, error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, content, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("read the imports: %w", err)
	}
	renamed := bytes.Clone(content)
	for _, spec := range slices.Backward(file.Imports) {
		target, err := strconv.Unquote(spec.Path.Value)
		if rest, is := strings.CutPrefix(target, ours+"/"); is && err == nil {
			asked[rest] = name
			from, to := positions.Position(spec.Path.Pos()).Offset, positions.Position(spec.Path.End()).Offset
			renamed = slices.Concat(renamed[:from], []byte(strconv.Quote(w.module+"/"+rest)), renamed[to:])
		}
	}
	renamed, err = format.Source(renamed) // it sorts them
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return renamed, nil
}

// checkImports refuses a copy that lacks a package. The go command would look for it on the internet.
func checkImports(dir string, asked map[string]string) error {
	for imported, by := range asked {
		if _, err := os.Stat(filepath.Join(dir, imported)); err != nil {
			return fmt.Errorf("%s imports %s, which is not copied: test/archtest/rings.go says what is", by, imported)
		}
	}
	return nil
}

// cutSQLC is sqlc.yaml for the packages that are copied.
func (w wish) cutSQLC() (string, error) {
	content, err := os.ReadFile(filepath.Join(w.from, "sqlc.yaml"))
	if err != nil {
		return "", fmt.Errorf("read Payonce's file: %w", err)
	}
	const item = "\n  - "
	head, rest, _ := strings.Cut(string(content), item)
	cut := head
	for block := range strings.SplitSeq(strings.TrimSuffix(rest, "\n"), item) {
		_, out, _ := strings.Cut(block, "out: ")
		dir, _, found := strings.Cut(out, "/internal/dbsqlc")
		if !found {
			return "", fmt.Errorf("sqlc.yaml has a block without a package of ours: %.80s", block)
		}
		if ring := archtest.RingOf(dir + "/a.go"); ring == 0 || ring == 1 && w.operations {
			cut += item + block
		}
	}
	return cut + "\n", nil
}

// finish names the modules, drops what no package needs any more, and builds the grader.
func (w wish) finish(ctx context.Context, dir string) error {
	for _, step := range []struct {
		dir  string
		args []string
	}{
		{dir, []string{"mod", "edit", "-module=" + w.module}},
		{filepath.Join(dir, "tools"), []string{"mod", "edit", "-module=" + w.module + "/tools"}},
		{dir, []string{"mod", "tidy"}},
		{filepath.Join(w.from, "lab"), []string{"build", "-o", filepath.Join(dir, "bin", "grade"), "./grade"}},
	} {
		if _, err := w.output(ctx, step.dir, w.goCommand, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// output runs a program, and returns what it has printed.
func (w wish) output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return string(out), nil
}
