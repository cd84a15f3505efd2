package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reach tells which tests reach which mutants, and how long each test takes.
type reach map[string]map[string]reachedBy // by package and test

type reachedBy struct {
	Seconds float64
	Hashes  []string // of mutants
}

// measure runs each test once that the file does not know, and adds it to the file. A test that has changed since may
// reach more: what survives is therefore given to all tests of its own package at the end.
func measure(ctx context.Context, b *binaries, p plan, workers int, file string, say sayer) (reach, error) {
	known, err := readReach(file)
	if err != nil {
		return nil, err
	}
	type job struct{ pkg, test string }
	var jobs []job
	for i, pkg := range b.packages {
		say("building the tests, %d of %d: %s", i+1, len(b.packages), pkg.dir)
		tests, err := b.list(ctx, pkg.dir)
		if err != nil {
			return nil, err
		}
		if known[pkg.dir] == nil {
			known[pkg.dir] = map[string]reachedBy{}
		}
		maps.DeleteFunc(known[pkg.dir], func(test string, _ reachedBy) bool { return !slices.Contains(tests, test) })
		for _, test := range tests {
			if _, is := known[pkg.dir][test]; !is {
				jobs = append(jobs, job{pkg.dir, test})
			}
		}
	}
	progress, n := newProgress("tests measured", len(jobs), say), 0
	err = spread(ctx, workers, jobs, func(ctx context.Context, j job) (reachedBy, error) {
		return reachedByTest(ctx, b, p, j.pkg, j.test)
	}, func(j job, r reachedBy) error {
		known[j.pkg][j.test] = r
		progress.step("")
		if n++; n%100 == 0 {
			return writeReach(file, known)
		}
		return nil
	})
	return known, errors.Join(err, writeReach(file, known))
}

func readReach(file string) (reach, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return reach{}, nil
	}
	if err != nil {
		return nil, err
	}
	known := reach{}
	if err := json.Unmarshal(raw, &known); err != nil {
		return nil, fmt.Errorf("read %s: %w; remove it", file, err)
	}
	return known, nil
}

func writeReach(file string, r reach) error {
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
		o, err = b.run(ctx, pkg, []string{test}, 0, 5*time.Minute,
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
	for line := range strings.FieldsSeq(string(raw)) {
		n, err := strconv.Atoi(line)
		if err != nil || n < 1 || n > len(p.mutants) {
			return reachedBy{}, fmt.Errorf("%s of %s reached place %q", test, pkg, line)
		}
		r.Hashes = append(r.Hashes, p.mutants[n-1].hash)
	}
	slices.Sort(r.Hashes)
	r.Hashes = slices.Compact(r.Hashes)
	return r, nil
}
