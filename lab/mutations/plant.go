package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payonce/lab/program"
	"payonce/lab/world"
)

// field is where the bugs are planted.
type field struct {
	root, dir string
	tree      *tree
	seed      uint64
	say       func(format string, args ...any)
}

// result of one bug.
type result struct {
	Name       string   `json:"name"`
	Bug        string   `json:"bug"`
	Removed    string   `json:"removed"`
	CaughtBy   string   `json:"caughtBy"`   // the run that has told; empty if none has
	Invariants []string `json:"invariants"` // that were violated
	First      string   `json:"first"`      // violation
	Seconds    float64  `json:"seconds"`
}

// plantAll tries one bug after the other.
func plantAll(ctx context.Context, s settings, stderr io.Writer) (results []result, err error) {
	root, err := world.Root(ctx)
	if err != nil {
		return nil, err
	}
	bugs, err := readBugs(filepath.Join(root, "lab", "mutations", "bugs"))
	if err != nil {
		return nil, err
	}
	if bugs, err = s.choose(bugs); err != nil {
		return nil, err
	}
	dir, err := program.TempDir("mutations")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t, err := readTree(root)
	if err != nil {
		return nil, err
	}
	f := field{root: root, dir: dir, tree: t, seed: s.Seed,
		say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }}
	f.say("seed %d, %d bugs", s.Seed, len(bugs))
	if err := f.buildLabs(ctx); err != nil {
		return nil, err
	}
	for i, b := range bugs {
		f.say("[%d/%d] %s: %s", i+1, len(bugs), b.name, b.what)
		r, err := f.plant(ctx, b)
		if err != nil {
			return results, err
		}
		f.say("      %s", r.verdict())
		results = append(results, r)
	}
	return results, nil
}

// choose takes those that are asked for.
func (s settings) choose(bugs []bug) ([]bug, error) {
	if s.Only != "" {
		var chosen []bug
		for name := range strings.SplitSeq(s.Only, ",") {
			i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == strings.TrimSpace(name) })
			if i < 0 {
				return nil, fmt.Errorf("ONLY has %q, which is no bug; make break lists them", name)
			}
			chosen = append(chosen, bugs[i])
		}
		return chosen, nil
	}
	bugs = slices.DeleteFunc(slices.Clone(bugs), func(b bug) bool { return b.catches[0].setting() })
	if !s.Quick {
		return bugs, nil
	}
	// By the matrix alone: a bug that takes a chaos run is none for a quick one.
	quick := slices.DeleteFunc(slices.Clone(bugs), func(b bug) bool { return b.catches[0].lab != "matrix" })
	random := rand.New(rand.NewPCG(s.Seed, s.Seed))
	random.Shuffle(len(quick), func(i, j int) { quick[i], quick[j] = quick[j], quick[i] })
	return quick[:min(s.Few, len(quick))], nil
}

// buildLabs builds what will judge: from the tree as it is, without any bug.
func (f field) buildLabs(ctx context.Context) error {
	f.say("building the matrix and the chaos run")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", f.dir+string(filepath.Separator),
		"./matrix", "./chaos")
	cmd.Dir = filepath.Join(f.root, "lab")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the labs: %w\n%s", err, out)
	}
	return nil
}

// plant builds the programs with one bug, and has it looked for.
func (f field) plant(ctx context.Context, b bug) (result, error) {
	began := time.Now()
	r := result{Name: b.name, Bug: b.what, Removed: b.removed}
	dir := filepath.Join(f.dir, b.name)
	overlay, err := b.apply(f.tree, filepath.Join(dir, "source"))
	if err != nil {
		return r, err
	}
	if _, err := world.Build(ctx, f.root, filepath.Join(dir, "bin"), overlay); err != nil {
		return r, fmt.Errorf("plant %s: %w", b.name, err)
	}
	for _, c := range b.catches {
		look := f.look
		if c.lab == "test" {
			look = func(ctx context.Context, dir string, c catch) ([]program.Violation, error) {
				return f.test(ctx, dir, overlay, c)
			}
		}
		violations, err := look(ctx, dir, c)
		if err != nil {
			return r, fmt.Errorf("look for %s: %w", b.name, err)
		}
		if len(violations) == 0 {
			continue
		}
		r.CaughtBy, r.First = c.String(), violations[0].Where+": "+violations[0].Detail
		for _, v := range violations {
			if !slices.Contains(r.Invariants, v.Invariant) {
				r.Invariants = append(r.Invariants, v.Invariant)
			}
		}
		slices.Sort(r.Invariants)
		break
	}
	r.Seconds = time.Since(began).Seconds()
	return r, os.RemoveAll(dir)
}

// cellLimit is for a cell of the matrix: on a bug, many a wait is in vain.
const cellLimit = 40 * time.Second

// look runs one lab on the programs with the bug.
func (f field) look(ctx context.Context, dir string, c catch) ([]program.Violation, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	report := filepath.Join(dir, c.lab+".json")
	cmd := exec.CommandContext(ctx, filepath.Join(f.dir, c.lab))
	cmd.Dir = f.root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "QUICK=1", "PROGRAMS="+filepath.Join(dir, "bin"), "LIMIT="+cellLimit.String(),
		"ONLY="+c.only, fmt.Sprintf("SEED=%d", f.seed), "REPORT="+report, "KEEP="+filepath.Join(dir, "kept"))
	if c.setting() {
		cmd.Env = append(append(cmd.Env, "ONLY=", "QUICK="), strings.Fields(c.only)...)
	}
	out, runErr := cmd.CombinedOutput()
	raw, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("%s gave no report: %w\n%s", c, errors.Join(runErr, err), lastWords(out))
	}
	var told struct{ Violations []program.Violation }
	if err := json.Unmarshal(raw, &told); err != nil {
		return nil, fmt.Errorf("read the report of %s: %w", c, err)
	}
	// An edge that a short run has missed is no sign of a bug.
	return slices.DeleteFunc(told.Violations, func(v program.Violation) bool { return v.Invariant == "sometimes" }), nil
}

// test runs one test on the sources with the bug. That it fails is the violation.
func (f field) test(ctx context.Context, dir string, overlay map[string]string, c catch) ([]program.Violation, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	file, err := world.WriteOverlay(f.root, dir, overlay)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(c.only)
	name, pkg := words[len(words)-1], words[len(words)-2]
	run := func(more ...string) (out []byte, err error) {
		args := slices.Concat([]string{"test", "-count=1", "-timeout", (limit / 2).String(), "-run", "^" + name + "$"},
			more, []string{pkg})
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = f.root
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 30 * time.Second
		if c.setting() {
			cmd.Env = append(os.Environ(), world.TestsOnServers)
		}
		return cmd.CombinedOutput()
	}
	if out, err := run(); err != nil {
		return nil, fmt.Errorf("%s fails without the bug: %w\n%s", c, err, lastWords(out))
	}
	out, err := run("-overlay", file)
	if at := strings.Index(string(out), "--- FAIL: "+name); at >= 0 {
		return []program.Violation{program.Broken("test", name, string(lastWords(out[at:])))}, nil
	}
	return nil, errors.Join(err, ctx.Err())
}

func lastWords(out []byte) []byte {
	const enough = 4000
	return out[max(0, len(out)-enough):]
}
