package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// reach tells which tests reach which mutants, and how long each test takes.
type reach struct {
	Places   []string                // the keys of all mutants that were measured, in order
	Packages map[string]packageReach // by directory
}

type packageReach struct {
	Sources string   // the hash of the test files: if it changes, the package is measured again
	Names   []string // of its tests
	Tests   map[string]reachedBy
}

type reachedBy struct {
	Seconds float64
	Keys    []string // of mutants, in order
}

// measure runs each test once that the file does not know, or whose package has changed, and adds it to the file.
func measure(ctx context.Context, b *binaries, p plan, workers int, file string,
	say func(format string, args ...any),
) (*reach, error) {
	known, err := readReach(file)
	if err != nil {
		return nil, err
	}
	type job struct{ pkg, test string }
	var jobs []job
	for i, pkg := range b.packages {
		sources, err := sourcesOf(filepath.Join(b.root, pkg.dir))
		if err != nil {
			return nil, err
		}
		if known.Packages[pkg.dir].Sources != sources {
			say("building the tests, %d of %d: %s", i+1, len(b.packages), pkg.dir)
			names, err := b.list(ctx, pkg.dir)
			if err != nil {
				return nil, err
			}
			known.Packages[pkg.dir] = packageReach{sources, names, map[string]reachedBy{}}
		}
		for _, test := range known.Packages[pkg.dir].Names {
			if _, is := known.Packages[pkg.dir].Tests[test]; !is {
				jobs = append(jobs, job{pkg.dir, test})
			}
		}
	}
	if len(known.Places) == 0 {
		for _, m := range p.mutants {
			known.Places = append(known.Places, m.key)
		}
		slices.Sort(known.Places)
	}
	n := 0
	err = spread(ctx, workers, jobs, func(ctx context.Context, j job) (reachedBy, error) {
		return reachedByTest(ctx, b, p, j.pkg, j.test)
	}, func(j job, r reachedBy) error {
		known.Packages[j.pkg].Tests[j.test] = r
		if n++; n%every > 0 {
			return nil
		}
		say("%d/%d tests measured", n, len(jobs))
		return writeReach(file, known)
	})
	return known, errors.Join(err, writeReach(file, known))
}

// sourcesOf is the hash of the test files of a package.
func sourcesOf(dir string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		all.Write(raw)
	}
	return shortHash(all.String()), nil
}

func readReach(file string) (*reach, error) {
	known := &reach{Packages: map[string]packageReach{}}
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, known); err != nil {
		return nil, fmt.Errorf("read %s: %w; remove it", file, err)
	}
	return known, nil
}

func writeReach(file string, r *reach) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o600)
}

// tries of a test that must not fail. On a busy machine, one may.
const tries = 3

// reachedByTest runs one test without any mutant.
func reachedByTest(ctx context.Context, b *binaries, p plan, pkg, test string) (r reachedBy, err error) {
	dir, err := os.MkdirTemp(b.dir, "reached-")
	if err != nil {
		return reachedBy{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "numbers")
	var o outcome
	for try := 1; try == 1 || o.failed; try++ {
		o, err = b.run(ctx, batch{pkg: pkg, tests: []string{test}, limit: unmeasuredLimit}, 0,
			append(b.share(mutant{}), "PAYONCE_MUTANTS_REACHED="+file)...)
		if err != nil {
			return reachedBy{}, err
		}
		if o.failed && try == tries {
			return reachedBy{}, fmt.Errorf("%s of %s fails without any mutant, %d times:\n%s", test, pkg, try, o.output)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a test that reaches nothing writes nothing
		return reachedBy{}, err
	}
	r.Seconds = o.took.Seconds()
	if r.Keys, err = p.keysOf(string(raw)); err != nil {
		return reachedBy{}, fmt.Errorf("%s of %s: %w", test, pkg, err)
	}
	return r, nil
}

// keysOf are the keys of the mutants whose numbers are in a text, each once and in order.
func (p plan) keysOf(numbers string) ([]string, error) {
	var keys []string
	for line := range strings.FieldsSeq(numbers) {
		n, err := strconv.Atoi(line)
		if err != nil || n < 1 || n > len(p.mutants) {
			return nil, fmt.Errorf("place %q was reached", line)
		}
		keys = append(keys, p.mutants[n-1].key)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}
