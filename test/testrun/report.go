package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of output of the compiler, with the variant in brackets
	Test       string
	Output     string
	Elapsed    float64
	// FailedBuild is the ImportPath whose output says why a package failed.
	FailedBuild string
}

// decode passes events on. A line that is none is output of go itself.
func decode(from io.Reader, to chan<- event) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				e = event{Action: "output", Output: string(line)}
			}
			to <- e
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return fmt.Errorf("read what go test says: %w", err)
		}
	}
}

// source is where output comes from: a test, a package, a build, or go itself.
type source struct{ pkg, test string }

// report keeps the output of what has not passed yet.
type report struct {
	mu    sync.Mutex // Modules are tested side by side.
	out   io.Writer
	now   func() time.Time
	began time.Time
	spoke time.Time

	total, ended            int
	passed, failed, skipped int
	running                 map[string]bool
	output                  map[source]*strings.Builder
	failures                []failure
	blamed                  map[string]bool // packages of which a test has failed
}

type failure struct {
	title string
	says  []source
}

func newReport(total int, out io.Writer, now func() time.Time) *report {
	return &report{
		out: out, now: now, began: now(), spoke: now(), total: total,
		running: map[string]bool{}, output: map[source]*strings.Builder{}, blamed: map[string]bool{},
	}
}

func (r *report) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := source{e.Package, e.Test}
	switch e.Action {
	case "start":
		r.running[e.Package] = true
	case "output":
		r.keep(from, e.Output)
	case "build-output":
		r.keep(source{e.ImportPath, ""}, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnds(e)
			return
		}
		r.testEnds(e, from)
	}
}

func (r *report) keep(from source, text string) {
	if r.output[from] == nil {
		r.output[from] = &strings.Builder{}
	}
	r.output[from].WriteString(text)
}

// testEnds counts tests with their subtests as one.
func (r *report) testEnds(e event, from source) {
	top := !strings.Contains(e.Test, "/")
	switch {
	case e.Action == "fail":
		r.failures = append(r.failures, failure{e.Package + " " + e.Test, []source{from}})
		r.blamed[e.Package] = true
		if top {
			r.failed++
		}
		return
	case top && e.Action == "pass":
		r.passed++
	case top:
		r.skipped++
	}
	delete(r.output, from)
}

// packageEnds reports what failed outside of its tests too: a build, a panic, a test that was running when the time was
// over.
func (r *report) packageEnds(e event) {
	delete(r.running, e.Package)
	if e.Action == "skip" {
		return // no tests
	}
	r.ended++
	verdict := "ok"
	if e.Action == "fail" {
		verdict = "FAILED"
		if !r.blamed[e.Package] {
			r.failed++
		}
		r.failures = append(r.failures, failure{e.Package, r.left(e)})
	}
	r.line("%s %s (%.1f s)", verdict, short(e.Package), e.Elapsed)
}

// left is where a failed package has output that no ended test of it accounts for.
func (r *report) left(e event) []source {
	says := []source{{e.FailedBuild, ""}, {e.Package, ""}}
	for _, from := range slices.SortedFunc(maps.Keys(r.output),
		func(a, b source) int { return strings.Compare(a.test, b.test) }) {
		reported := slices.ContainsFunc(r.failures, func(f failure) bool { return slices.Contains(f.says, from) })
		if from.pkg == e.Package && from.test != "" && !reported {
			says = append(says, from)
		}
	}
	return says
}

func (r *report) stillRunning() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Sub(r.spoke) < silence {
		return
	}
	running := slices.Sorted(maps.Keys(r.running))
	for i, name := range running {
		running[i] = short(name)
	}
	if len(running) == 0 {
		running = []string{"building"}
	}
	r.line("… %s", strings.Join(running, ", "))
}

func (r *report) line(format string, args ...any) {
	r.spoke = r.now()
	fmt.Fprintf(r.out, "%d/%d packages, %.0f s: %s\n", r.ended, r.total, r.now().Sub(r.began).Seconds(),
		fmt.Sprintf(format, args...))
}

// close tells what failed, and counts.
func (r *report) close() {
	if said := r.output[source{}]; said != nil {
		fmt.Fprint(r.out, said)
	}
	for _, f := range r.failures {
		fmt.Fprintf(r.out, "\n=== FAILED %s\n", f.title)
		for _, from := range f.says {
			if said := r.output[from]; said != nil {
				fmt.Fprint(r.out, said)
			}
		}
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped in %d of %d packages, %.0f s\n",
		r.passed, r.failed, r.skipped, r.ended, r.total, r.now().Sub(r.began).Seconds())
}

func short(pkg string) string { return strings.TrimPrefix(pkg, "payonce/") }
