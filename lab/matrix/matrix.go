package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"payonce/lab/program"
	"payonce/lab/world"
)

// matrix is one run.
type matrix struct {
	settings settings
	site     *world.Site
	stopping *world.Programs // the same programs, built with stops; nil where there are none

	mu   sync.Mutex
	out  io.Writer
	done []result
}

// result of one cell.
type result struct {
	Cell       string              `json:"cell"`
	Took       time.Duration       `json:"nanoseconds,format:nano"`
	Violations []program.Violation `json:"violations,omitempty"`
	Kept       string              `json:"kept,omitzero"` // where its logs are
}

func (m *matrix) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(m.out, format+"\n", args...)
}

// open builds the programs and starts PostgreSQL.
func (m *matrix) open(ctx context.Context, dir string) error {
	programs, err := m.programs(ctx, dir)
	if err != nil {
		return err
	}
	m.site, err = world.Open(ctx, world.Options{
		Programs: programs, Dir: dir, Servers: m.settings.Servers, Say: func(line string) { m.say("%s", line) },
		Settings: map[string]string{"max_connections": "1000"},
	})
	return err
}

// stopsDir is where programs that were built by others may have a build with stops.
const stopsDir = "stops"

func (m *matrix) programs(ctx context.Context, dir string) (world.Programs, error) {
	if built := m.settings.Programs; built != "" {
		if stopping, err := world.Existing(filepath.Join(built, stopsDir)); err == nil {
			m.stopping = &stopping
		}
		return world.Existing(built)
	}
	m.say("building the programs, and once more with stops")
	root, err := world.Root(ctx)
	if err != nil {
		return world.Programs{}, err
	}
	stopping, err := world.Build(ctx, root, filepath.Join(dir, "bin", stopsDir), map[string]string{
		"internal/gateway/wire/transport.go": filepath.Join(root, "lab/matrix/testdata/transport.go"),
	})
	if err != nil {
		return world.Programs{}, err
	}
	m.stopping = &stopping
	return world.Build(ctx, root, filepath.Join(dir, "bin"), nil)
}

// runAll plays the cells.
func (m *matrix) runAll(ctx context.Context, all []cell) {
	next := make(chan cell)
	var workers sync.WaitGroup
	for range m.settings.Workers {
		workers.Go(func() {
			for c := range next {
				r := m.run(ctx, c)
				m.mu.Lock()
				m.done = append(m.done, r)
				m.mu.Unlock()
				m.sayDone(r, len(all))
			}
		})
	}
	for _, c := range all {
		select {
		case next <- c:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	slices.SortFunc(m.done, func(a, b result) int { return cmp.Compare(a.Cell, b.Cell) })
}

func (m *matrix) sayDone(r result, of int) {
	m.mu.Lock()
	n := len(m.done)
	m.mu.Unlock()
	word := "ok"
	if len(r.Violations) > 0 {
		v := r.Violations[0]
		word = fmt.Sprintf("FAIL %s: %s", v.Invariant, v.Detail)
	}
	m.say("%3d/%d %6.1f s  %-28s %s", n, of, r.Took.Seconds(), r.Cell, word)
}

// run plays one cell, and judges it.
func (m *matrix) run(ctx context.Context, c cell) result {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, m.settings.Limit)
	defer cancel()
	r := result{Cell: c.name()}
	s, err := m.openStage(bounded, c)
	if err != nil {
		v := program.Broken(caseKind, r.Cell, "the world could not be made: "+err.Error())
		r.Violations = append(r.Violations, v)
		return r
	}
	r.Violations = s.perform()
	for i := range r.Violations {
		r.Violations[i].Where = strings.TrimSpace(r.Cell + " " + r.Violations[i].Where)
	}
	if len(r.Violations) > 0 {
		r.Kept, err = s.keep(m.settings.keepIn(r.Cell))
	}
	if err := errors.Join(err, s.close(), os.RemoveAll(s.dir())); err != nil && ctx.Err() == nil {
		v := program.Broken(caseKind, r.Cell, "the world could not be ended: "+err.Error())
		r.Violations = append(r.Violations, v)
	}
	r.Took = time.Since(began)
	return r
}

// perform is the whole play.
func (s *stage) perform() []program.Violation {
	watching, err := s.watch()
	if err != nil {
		return []program.Violation{verdictOn(err)}
	}
	if err := s.play(); err != nil {
		v := verdictOn(err)
		v.Detail += "; " + s.state()
		return []program.Violation{v}
	}
	return s.judge(watching)
}
