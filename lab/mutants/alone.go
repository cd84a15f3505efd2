package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// asDrawn is how many mutants `mutants alone` tries if COUNT does not say.
const asDrawn = 50

// cellsAtOnce is how many cells of the matrix run at once, in all matrices together, but one in each at least. With
// more, what was waited for is missed because the machine is busy, not because of the mutant.
const cellsAtOnce = 10

// doubtful is the largest number of cells that are played once more if they have seen something. On a busy machine, a
// cell may wait in vain for what comes too late. Where more cells say the same, it is the mutant.
const doubtful = 4

// labLimit is for one lab on one mutant. With a mutant, many waits are for something that never happens.
const labLimit = 20 * time.Minute

// observation is what the labs say of one mutant: each invariant that was violated, and the cells and faults in which.
type observation struct {
	ID         string              `json:"id"`
	Violations map[string][]string `json:"violations"` // by invariant: where
	Details    map[string]string   `json:"details"`    // by invariant: what the first violation of it says
	// Reached are the keys of the places that the programs reach in both labs, in order. Only the observation without a
	// mutant has them.
	Reached []string `json:"reached,omitzero"`
}

// noMutant is the hash of the product without a mutant. What is seen on it says nothing about a mutant.
const noMutant = "none"

// reaches tells whether the labs reach the place of a mutant. Otherwise, they cannot see it.
func (s observation) reaches(m mutant) bool {
	_, is := slices.BinarySearch(s.Reached, m.key)
	return is || ofSchema(m)
}

// alone gives mutants to the matrix and to the chaos run, which never stop at a violation. It prints which invariant,
// which cell and which fault saw what, and which of them was the only one. Nothing is taken out of the proofs for it: a
// check that is never alone here may be alone for a bug that nobody has thought of.
func (w *work) alone(ctx context.Context, file string) (err error) {
	if w.Count == 0 {
		w.Count = asDrawn
	}
	observed, err := readObservations(file)
	if err != nil {
		return err
	}
	dir, err := scratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := w.buildForLabs(ctx, dir); err != nil {
		return err
	}
	drawn := w.chosen() // of those that a test has caught: an equivalent mutant would be seen by nobody
	without := observed[noMutant]
	if len(without.Reached) == 0 {
		w.say("looking at the product without a mutant")
		if without, err = w.look(ctx, dir, mutant{where: "without a mutant", hash: noMutant}); err != nil {
			return err
		}
		if len(without.Violations) > 0 {
			return fmt.Errorf("the labs see something without a mutant: %v in %v", without.Details, without.Violations)
		}
		observed[noMutant] = without
		if err := writeObservations(file, observed); err != nil {
			return err
		}
	}
	todo := slices.DeleteFunc(slices.Clone(drawn), func(m mutant) bool {
		_, known := observed[m.hash]
		return known || !without.reaches(m)
	})
	p := newProgress("mutants", len(todo), w.say)
	err = spread(ctx, w.Workers, todo, func(ctx context.Context, m mutant) (observation, error) {
		return w.look(ctx, dir, m)
	}, func(m mutant, s observation) error {
		observed[m.hash] = s
		p.step(m.id() + ": " + orElse(strings.Join(sortedKeys(s.Violations), " "), "nothing was seen"))
		return writeObservations(file, observed)
	})
	if err != nil {
		return err
	}
	return w.printAlone(drawn, observed)
}

// buildForLabs builds the programs with all mutants in them, and the labs without any.
func (w *work) buildForLabs(ctx context.Context, dir string) error {
	overlay, err := w.plan.write(w.root, filepath.Join(dir, "source"))
	if err != nil {
		return err
	}
	w.say("building the programs with the mutants, and the labs")
	separator := string(filepath.Separator)
	for _, build := range [][]string{
		{w.root, "-overlay", overlay, "-o", filepath.Join(dir, "programs") + separator, "./cmd/api", "./cmd/reconciler",
			"./cmd/mockpsp"},
		{filepath.Join(w.root, "lab"), "-o", dir + separator, "./matrix", "./chaos"},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-buildvcs=false"}, build[1:]...)...)
		cmd.Dir = build[0]
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	return nil
}

// look runs both labs on one mutant, to their ends. The programs that have its number beside them are links.
func (w *work) look(ctx context.Context, dir string, m mutant) (s observation, err error) {
	own := filepath.Join(dir, strconv.Itoa(m.number))
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	programs := filepath.Join(own, "programs")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return observation{}, err
	}
	for _, name := range []string{"api", "reconciler", "mockpsp"} {
		if err := os.Link(filepath.Join(dir, "programs", name), filepath.Join(programs, name)); err != nil {
			return observation{}, err
		}
	}
	if err := os.WriteFile(filepath.Join(programs, "mutant"), []byte(strconv.Itoa(m.number)), 0o644); err != nil {
		return observation{}, err
	}
	numbers := filepath.Join(own, "numbers")
	if m.hash == noMutant {
		if err := os.WriteFile(filepath.Join(programs, "reached"), []byte(numbers), 0o644); err != nil {
			return observation{}, err
		}
	}
	s = observation{ID: m.id(), Violations: map[string][]string{}, Details: map[string]string{}}
	for _, lab := range []string{"matrix", "chaos"} {
		told, err := w.run(ctx, dir, own, lab, "")
		if cells := cellsOf(told); lab == "matrix" && err == nil && 0 < len(cells) && len(cells) <= doubtful {
			told, err = w.run(ctx, dir, own, lab, strings.Join(cells, ","))
		}
		if err != nil {
			return observation{}, err
		}
		for _, v := range told {
			where := lab + " " + cmp.Or(v.Where, "the whole run")
			if !slices.Contains(s.Violations[v.Invariant], where) {
				s.Violations[v.Invariant] = append(s.Violations[v.Invariant], where)
			}
			s.Details[v.Invariant] = cmp.Or(s.Details[v.Invariant], v.Detail)
		}
	}
	if m.hash != noMutant {
		return s, nil
	}
	raw, err := os.ReadFile(numbers)
	if err != nil {
		return observation{}, err
	}
	s.Reached, err = w.plan.keysOf(string(raw))
	return s, err
}

// run runs one lab, or only some cells of it, and returns the violations that it tells of. A lab that gives no report
// is one: its product does not even start, as its first user would see.
func (w *work) run(ctx context.Context, dir, own, lab, cells string) ([]violation, error) {
	report := filepath.Join(own, lab+".json")
	if err := os.RemoveAll(report); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, labLimit)
	defer cancel()
	cmd := exec.CommandContext(limited, filepath.Join(dir, lab))
	cmd.Dir, cmd.WaitDelay = w.root, time.Minute
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), "QUICK=1", "ONLY="+cells, "PROGRAMS="+filepath.Join(own, "programs"),
		"LIMIT=40s", "REPORT="+report, "KEEP="+filepath.Join(own, "kept"),
		fmt.Sprintf("WORKERS=%d", max(1, cellsAtOnce/w.Workers)), fmt.Sprintf("SEED=%d", w.Seed))
	out, runErr := cmd.CombinedOutput()
	told, err := readViolations(report)
	if err != nil && w.ended(ctx) {
		return nil, context.Canceled
	}
	if err != nil {
		last := out[max(0, len(out)-200):]
		w.say("%s gave no report: %v: %s", lab, runErr, last)
		return []violation{{Invariant: "start", Detail: string(last)}}, nil
	}
	return told, nil
}

// cellsOf are the cells of the matrix that violations are in, each once.
func cellsOf(told []violation) (cells []string) {
	for _, v := range told {
		if cell, _, _ := strings.Cut(v.Where, " "); cell != "" && !slices.Contains(cells, cell) {
			cells = append(cells, cell)
		}
	}
	return cells
}

func (w *work) ended(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

type violation struct {
	Invariant string `json:"invariant"`
	Where     string `json:"where"`
	Detail    string `json:"detail"`
}

func readViolations(report string) ([]violation, error) {
	raw, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var told struct{ Violations []violation }
	if err := json.Unmarshal(raw, &told); err != nil {
		return nil, err
	}
	// That a short run has missed something is no sign of a bug.
	return slices.DeleteFunc(told.Violations, func(v violation) bool { return v.Invariant == "sometimes" }), nil
}

func readObservations(file string) (map[string]observation, error) {
	observed := map[string]observation{}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return observed, nil
	}
	if err != nil {
		return nil, err
	}
	return observed, json.Unmarshal(raw, &observed)
}

func writeObservations(file string, observed map[string]observation) error {
	raw, err := json.MarshalIndent(observed, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, raw, 0o600))
}
