package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// promela is embedded, so that the command runs from anywhere.
//
//go:embed *.pml
var promela embed.FS

// Bounds of one variant. A search that comes to one of them has proved nothing, and fails.
const (
	patience  = 3 * time.Minute
	memoryMiB = 1024
	depth     = 10_000 // steps of one run; the longest has a few hundred
)

// result is what pan says of a variant.
type result struct {
	variant variant
	failed  string   // the claim that does not hold, or empty
	steps   []string // of the counterexample
	edges   []string // of the key that some run has taken
	states  int64
	took    time.Duration
}

func (r result) asExpected() bool { return r.failed == r.variant.breaks }

// check searches all states of one variant of the models, in a directory of its own.
func check(ctx context.Context, models fs.FS, v variant) (result, error) {
	dir, err := os.MkdirTemp("", "payonce-model-")
	if err != nil {
		return result{}, fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.CopyFS(dir, models); err != nil {
		return result{}, fmt.Errorf("write model: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	began := time.Now()
	if err := build(ctx, dir, v); err != nil {
		return result{}, err
	}
	out, err := search(ctx, dir, v)
	if err != nil {
		return result{}, err
	}
	r := result{variant: v, took: time.Since(began)}
	if r.states, err = statesIn(out); err != nil {
		return result{}, err
	}
	r.failed, r.edges = failureIn(out), edgesIn(out)
	if r.failed != "" {
		r.steps, err = counterexample(ctx, dir, v)
	}
	return r, err
}

// build turns the model into pan. A variant that has to fail is searched breadth first: its counterexample is then a
// shortest one. It is found soon, so to optimise pan would take longer than to run it.
func build(ctx context.Context, dir string, v variant) error {
	if _, err := command(ctx, dir, "spin", append(defines(v), "-a", v.model)...); err != nil {
		return err
	}
	optimize := "-O2"
	if v.few || v.breaks != "" {
		optimize = "-O0"
	}
	flags := []string{optimize, "-w", "-DCOLLAPSE", "-DMEMLIM=" + strconv.Itoa(memoryMiB)}
	switch {
	case v.circles:
		flags = append(flags, "-DNP")
	case v.breaks != "":
		flags = append(flags, "-DSAFETY", "-DBFS")
	default:
		flags = append(flags, "-DSAFETY")
	}
	_, err := command(ctx, dir, "gcc", append(flags, "-o", "pan", "pan.c")...)
	return err
}

// search runs pan. -E: processes that wait for ever are at rest, and what rest has to look like is a claim of the
// model.
func search(ctx context.Context, dir string, v variant) (string, error) {
	args := []string{"-E", "-b", "-m" + strconv.Itoa(depth), "-w22"}
	if v.circles {
		args = append(args, "-l")
	}
	out, err := command(ctx, dir, filepath.Join(dir, "pan"), args...)
	switch {
	case failureIn(out) != "":
		return out, nil
	case err != nil:
		return "", err
	case !finished(out):
		return "", fmt.Errorf("pan did not search all states:\n%s", out)
	}
	return out, nil
}

func defines(v variant) []string {
	var args []string
	if v.breaks == "" {
		args = append(args, "-DDESIGN")
	}
	for _, macro := range v.macros {
		args = append(args, "-D"+macro)
	}
	return args
}

// command runs one tool, and tells what it said when it fails.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("run %s: %w", filepath.Base(name), ctx.Err())
	}
	if err != nil {
		return string(out), fmt.Errorf("run %s: %w\n%s", filepath.Base(name), err, out)
	}
	return string(out), nil
}

// failureIn names the claim that pan has found not to hold.
func failureIn(out string) string {
	if m := regexp.MustCompile(`assertion violated \(?(\w+)`).FindStringSubmatch(out); m != nil {
		return m[1]
	}
	if strings.Contains(out, "non-progress cycle (") {
		return "a run goes on for ever"
	}
	return ""
}

// edgesListed are the edges of docs/state_machine.md, as edges.pml has them.
func edgesListed() ([]string, error) {
	file, err := promela.ReadFile("edges.pml")
	if err != nil {
		return nil, fmt.Errorf("read edges: %w", err)
	}
	var edges []string
	for _, m := range regexp.MustCompile(`TOOK\("(.+)"\)`).FindAllStringSubmatch(string(file), -1) {
		edges = append(edges, m[1])
	}
	return edges, nil
}

// notTaken are the listed edges that no design has taken. Such an edge is dead: the model is wrong, or the table is. It
// asks only if a design of each model was searched: otherwise another model may take the edge.
func notTaken(listed []string, results []result) []string {
	taken, searched := map[string]bool{}, map[string]bool{}
	for _, r := range results {
		if r.variant.breaks != "" {
			continue
		}
		searched[r.variant.model] = true
		for _, edge := range r.edges {
			taken[edge] = true
		}
	}
	for _, v := range variants() {
		if !searched[v.model] {
			return nil
		}
	}
	return slices.DeleteFunc(slices.Clone(listed), func(edge string) bool { return taken[edge] })
}

// edgesIn are the edges of the key that pan has taken, in some run.
func edgesIn(out string) []string {
	var edges []string
	for _, m := range regexp.MustCompile(`(?m)^took (.+)$`).FindAllStringSubmatch(out, -1) {
		edges = append(edges, m[1])
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

// finished reports whether all states were searched. A search that was cut, by depth or memory, has proved nothing.
func finished(out string) bool {
	return strings.Contains(out, "errors: 0") && !strings.Contains(out, "Search not completed")
}

func statesIn(out string) (int64, error) {
	m := regexp.MustCompile(`([0-9.e+]+) states, stored`).FindStringSubmatch(out)
	if m == nil {
		return 0, errors.New("pan did not count its states:\n" + out)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("read states: %w", err)
	}
	return int64(n), nil
}
