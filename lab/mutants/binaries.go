package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// module of the product, as its import paths begin.
const module = "payonce/"

// binaries are the test binaries with all mutants in them. Each is built when it is needed first.
type binaries struct {
	root, dir, overlay string
	packages           []testPackage

	mu    sync.Mutex
	built map[string]*build
}

// testPackage is one whose tests may reach a mutant.
type testPackage struct {
	dir  string   // below the root
	deps []string // the directories of the product's packages that it needs
}

type build struct {
	once sync.Once
	path string
	err  error

	listed  sync.Once
	names   []string // of its tests
	listErr error
}

// findTests lists the packages of the product whose tests need one of the changed packages.
func findTests(ctx context.Context, root string) ([]testPackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-test", "-json=ImportPath,Deps", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages with tests: %w", err)
	}
	var found []testPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var listed struct {
			ImportPath string
			Deps       []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		name, isTest := strings.CutSuffix(listed.ImportPath, ".test")
		if !isTest {
			continue
		}
		p := testPackage{dir: strings.TrimPrefix(name, module)}
		if p.dir == "test/archtest" { // which reads the tree, and not what runs
			continue
		}
		for _, dep := range listed.Deps {
			dep, _, _ = strings.Cut(dep, " ")
			p.deps = append(p.deps, strings.TrimPrefix(dep, module))
		}
		if slices.ContainsFunc(packages(), func(changed string) bool { return slices.Contains(p.deps, changed) }) ||
			slices.Contains(p.deps, "db/migrations") {
			found = append(found, p)
		}
	}
	return found, nil
}

// get is the path of a test binary.
func (b *binaries) get(ctx context.Context, pkg string) (string, error) {
	one := b.build(ctx, pkg)
	return one.path, one.err
}

// build has a test binary built once.
func (b *binaries) build(ctx context.Context, pkg string) *build {
	b.mu.Lock()
	if b.built == nil {
		b.built = map[string]*build{}
	}
	if b.built[pkg] == nil {
		b.built[pkg] = &build{}
	}
	one := b.built[pkg]
	b.mu.Unlock()
	one.once.Do(func() {
		one.path = filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay",
			b.overlay, "-o", one.path, "./"+pkg)
		cmd.Dir = b.root
		if out, err := cmd.CombinedOutput(); err != nil {
			one.err = fmt.Errorf("build the tests of %s with the mutants: %w\n%s", pkg, err, out)
		}
	})
	return one
}

// list is the names of a package's tests, examples and fuzz targets.
func (b *binaries) list(ctx context.Context, pkg string) ([]string, error) {
	one := b.build(ctx, pkg)
	if one.err != nil {
		return nil, one.err
	}
	one.listed.Do(func() { one.names, one.listErr = b.ask(ctx, pkg, one.path) })
	return one.names, one.listErr
}

// ask has a test binary name its tests.
func (b *binaries) ask(ctx context.Context, pkg, path string) ([]string, error) {
	cmd := exec.CommandContext(ctx, path, "-test.list", "^(Test|Example|Fuzz)")
	cmd.Dir = filepath.Join(b.root, pkg)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", pkg, err)
	}
	return strings.Fields(string(out)), nil
}

// outcome of one run of a test binary.
type outcome struct {
	failed bool
	hung   bool
	by     string // the test that failed first, if its name is known
	output []byte
	took   time.Duration
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	inTest     = regexp.MustCompile(`\.((?:Test|Example|Fuzz)\w+)[.(]`)
)

// slack is what a run may take in addition to what its tests take without a mutant: tests wait a minute for what does
// not come.
const slack = 75 * time.Second

// run runs tests of a package in a process of its own, with one mutant active (0: none).
func (b *binaries) run(ctx context.Context, each batch, active int, env ...string) (outcome, error) {
	path, err := b.get(ctx, each.pkg)
	if err != nil {
		return outcome{}, err
	}
	args := []string{"-test.failfast", "-test.parallel=4", fmt.Sprintf("-test.short=%t", !each.long)}
	if len(each.tests) > 0 {
		args = append(args, "-test.run=^("+strings.Join(each.tests, "|")+")$")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...) // its children are killed with it, below
	cmd.Dir = filepath.Join(b.root, each.pkg)
	cmd.Env = append(append(os.Environ(), "PAYONCE_MUTANT="+strconv.Itoa(active)), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	o := outcome{}
	select {
	case err = <-ended:
		// What the tests have started may outlive them: that is no failure.
		o.failed = err != nil && !errors.Is(err, exec.ErrWaitDelay)
	case <-time.After(each.limit):
		o.failed, o.hung = true, true
	case <-ctx.Done():
	}
	// What the tests have started goes, too.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if o.hung || ctx.Err() != nil {
		err = <-ended
	}
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return o, err
	}
	// rapid keeps what has failed in the tree of the sources. On a mutant, this is no finding.
	if err := os.RemoveAll(filepath.Join(cmd.Dir, "testdata", "rapid")); err != nil {
		return o, err
	}
	o.took, o.output = time.Since(began), output.Bytes()
	if m := failedTest.FindSubmatch(o.output); m != nil {
		o.by = string(m[1])
	} else if m := inTest.FindSubmatch(o.output); m != nil {
		o.by = string(m[1])
	}
	return o, nil
}
