package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"payonce/internal/cli"
	"payonce/lab/world"
)

// demo is the command "mutations demo".
func demo(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 1 {
		return cli.Usagef("one bug at a time; see mutations --help")
	}
	name := strings.Join(args, "")
	return buildDemo(ctx, name, filepath.Join("bin", "break", name), stdout)
}

// buildDemo builds the demo with one bug, to dir/demo. The program says on each of its pages which bug it has.
func buildDemo(ctx context.Context, name, dir string, stdout io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	root, err := world.Root(ctx)
	if err != nil {
		return err
	}
	bugs, err := readBugs(filepath.Join(root, "lab", "mutations", "bugs"))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == name })
	if i < 0 {
		for _, b := range bugs {
			fmt.Fprintf(stdout, "  %-36s %s\n", b.name, b.what)
		}
		if name == "" {
			return cli.Usagef("which bug? make break BUG=<one of the names above>")
		}
		return cli.Usagef("%q is no bug of those above; make break BUG=<one of the names above>", name)
	}
	b := bugs[i]
	source, err := os.MkdirTemp("", "payonce-break-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(source) }()
	t, err := readTree(root)
	if err != nil {
		return err
	}
	overlay, err := b.apply(t, filepath.Join(source, "source"))
	if err != nil {
		return err
	}
	file, err := world.WriteOverlay(root, source, overlay)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "planting %s: %s\n", b.name, b.what)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", file,
		"-ldflags", planted(b), "-o", filepath.Join(dir, "demo"), "./cmd/demo")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the demo with %s: %w", b.name, err)
	}
	return nil
}

// planted is the linker's flag that has the demo say its bug. The go command takes quotes of either kind around a flag,
// and nothing that would let a quote be inside of its own kind.
func planted(b bug) string {
	return `-X "main.planted=` + b.name + ": " + strings.ReplaceAll(b.what, `"`, "'") + `"`
}
