package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// share has the runs copy one prepared cluster, which takes a tenth of the time of preparing it. A mutant of the schema
// has a cluster of its own.
func (b *binaries) share(m mutant) []string {
	if ofSchema(m) {
		return nil
	}
	return []string{"PGTEST_PREPARED=" + filepath.Join(b.dir, "clusters")} // see test/pgtest
}

const (
	// unmeasuredLimit is how long the tests of a package may take if it is not known how long they take.
	unmeasuredLimit = 5 * time.Minute
	longLimit       = 10 * time.Minute // the same, with the long ones
)

// batch is a run of one test binary.
type batch struct {
	pkg   string
	tests []string // none: all
	limit time.Duration
	long  bool // with the tests that make test leaves out
}

// last are the runs of a mutant that make test has let through: with the long tests, of its own package and end to end.
func last(m mutant) []batch {
	return []batch{{homeOf(m), nil, longLimit, true}, {"test/e2e", nil, longLimit, true}}
}

const (
	// few is how many tests the first run of a mutant has.
	few = 6
	// most is how many tests of each other package a mutant is given to. A guard that only a slow test of another
	// package knows is not known well enough.
	most = 24
)

// spread works on items, some at once, and tells what came of each. Only one call of tell runs at a time.
func spread[T, R any](
	ctx context.Context, workers int, items []T, work func(context.Context, T) (R, error), tell func(T, R) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	var mu sync.Mutex
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			result, err := work(ctx, item)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			return tell(item, result)
		})
	}
	return group.Wait()
}

// try runs one batch after the other until one fails.
func try(ctx context.Context, b *binaries, batches []batch, m mutant) (result, error) {
	for _, each := range batches {
		o, err := b.certain(ctx, each, m)
		switch {
		case err != nil:
			return result{}, fmt.Errorf("try %s: %w", m.id(), err)
		case o.hung:
			return result{hung, strings.TrimSpace(each.pkg + " " + first(each.tests))}, nil
		case o.failed:
			return result{caught, strings.TrimSpace(each.pkg + " " + o.by)}, nil
		}
	}
	return result{verdict: survived}, nil
}

// certain runs a batch, and what has failed once more: a test that fails now and then on a busy machine has caught
// nothing. If it passes then, the whole batch is given one more chance.
func (b *binaries) certain(ctx context.Context, each batch, m mutant) (outcome, error) {
	o, err := b.run(ctx, each, m.number, b.share(m)...)
	if err != nil || !o.failed || o.hung {
		return o, err
	}
	again := each
	if o.by != "" {
		again.tests = []string{o.by}
	}
	second, err := b.run(ctx, again, m.number, b.share(m)...)
	if err != nil || second.failed {
		return o, err
	}
	return b.run(ctx, each, m.number, b.share(m)...)
}

func first(tests []string) string {
	if len(tests) == 1 {
		return tests[0]
	}
	return ""
}

// batches are the runs of a mutant: the test that caught it before; the tests of its own package that reach it; the
// quickest of other packages that do; and then the others. Without a measurement, all tests of the packages that need
// its package.
func batches(b *binaries, r *reach, p plan, m mutant, before result) []batch {
	var all []batch
	pkg, test, _ := strings.Cut(before.by, " ")
	if test != "" && slices.ContainsFunc(b.packages, func(p testPackage) bool { return p.dir == pkg }) {
		all = append(all, batch{pkg: pkg, tests: []string{test}, limit: 2 * slack, long: true})
	}
	own := homeOf(m)
	if r == nil {
		return append(all, unmeasured(b, own)...)
	}
	reached := r.by(r.keysFor(p, m))
	mine := reached[own]
	delete(reached, own)
	all = append(all, r.cut(own, mine)...)
	if ofSchema(m) {
		return append(all, withSchema(r, own)...)
	}
	var quick, rest []batch
	for pkg, tests := range reached {
		for i, each := range r.cut(pkg, tests[:min(most, len(tests))]) {
			if i == 0 {
				quick = append(quick, each)
			} else {
				rest = append(rest, each)
			}
		}
	}
	for _, part := range [][]batch{quick, rest} {
		slices.SortFunc(part, func(x, y batch) int {
			return cmp.Or(cmp.Compare(x.limit, y.limit), strings.Compare(x.pkg, y.pkg))
		})
		all = append(all, part...)
	}
	return all
}

// atHome are the runs of a mutant with the tests of its own package alone: those that are known to reach it, and those
// that are new.
func atHome(ctx context.Context, b *binaries, r *reach, p plan, m mutant) ([]batch, error) {
	own := homeOf(m)
	names, err := b.list(ctx, own)
	if err != nil {
		return nil, err
	}
	if ofSchema(m) || len(r.Packages[own].Tests) == 0 {
		return []batch{{pkg: own, limit: unmeasuredLimit}}, nil
	}
	todo := r.by(r.keysFor(p, m))[own]
	for _, name := range names {
		if _, measured := r.Packages[own].Tests[name]; !measured {
			todo = append(todo, name)
		}
	}
	return r.cut(own, todo), nil
}

// keysFor are the keys of the places that stand for a mutant. A place that is new since the measurement is reached by
// the tests that reach its function.
func (r *reach) keysFor(p plan, m mutant) []string {
	if _, measured := slices.BinarySearch(r.Places, m.key); measured {
		return []string{m.key}
	}
	var keys []string
	for _, other := range p.mutants {
		if other.where == m.where && other.in == m.in {
			keys = append(keys, other.key)
		}
	}
	return keys
}

// by are the tests that reach one of the places, by package, the quickest first.
func (r *reach) by(keys []string) map[string][]string {
	reached := map[string][]string{}
	for pkg, known := range r.Packages {
		for test, by := range known.Tests {
			if slices.ContainsFunc(keys, func(key string) bool {
				_, is := slices.BinarySearch(by.Keys, key)
				return is
			}) {
				reached[pkg] = append(reached[pkg], test)
			}
		}
		slices.SortFunc(reached[pkg], func(x, y string) int {
			return cmp.Or(cmp.Compare(known.Tests[x].Seconds, known.Tests[y].Seconds), strings.Compare(x, y))
		})
	}
	return reached
}

// cut makes two runs of the tests of a package: the quickest, and the others.
func (r *reach) cut(pkg string, tests []string) []batch {
	var cut []batch
	for _, part := range [][]string{tests[:min(few, len(tests))], tests[min(few, len(tests)):]} {
		if len(part) > 0 {
			cut = append(cut, batch{pkg: pkg, tests: part, limit: r.limit(pkg, part)})
		}
	}
	return cut
}

// withSchema are the packages whose tests try the tables: each test reaches the schema, so no measurement tells which.
func withSchema(r *reach, own string) []batch {
	all := []batch{{pkg: own, limit: r.limit(own, nil)}}
	for _, pkg := range []string{
		"internal/idempotency", "internal/webhooks", "internal/deadletters", "internal/tenants", "internal/statement",
		"internal/reconcile", "internal/operator", "internal/postgres", "internal/payments",
	} {
		if pkg != own {
			all = append(all, batch{pkg: pkg, limit: r.limit(pkg, nil)})
		}
	}
	return all
}

// limit is how long tests may take: long enough for a machine that does other things as well.
func (r *reach) limit(pkg string, tests []string) time.Duration {
	sum := 0.0
	for test, by := range r.Packages[pkg].Tests {
		if len(tests) == 0 || slices.Contains(tests, test) {
			sum += by.Seconds
		}
	}
	return slack + 2*time.Duration(sum*float64(time.Second))
}

// unmeasured are the packages that need a package, with all their tests.
func unmeasured(b *binaries, own string) []batch {
	var all []batch
	for _, p := range b.packages {
		if p.dir == own || slices.Contains(p.deps, own) {
			all = append(all, batch{pkg: p.dir, limit: unmeasuredLimit})
		}
	}
	if i := slices.IndexFunc(all, func(each batch) bool { return each.pkg == own }); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

// homeOf is the package whose tests a mutant meets first.
func homeOf(m mutant) string {
	switch m.where {
	case "db/migrations/00112_idempotency_keys.sql":
		return "internal/idempotency"
	case "db/migrations/00113_payments.sql", "db/migrations/00117_disputes.sql":
		return "internal/payments"
	case "db/migrations/00116_ledger.sql":
		return "internal/statement"
	case "db/migrations/00111_tenants.sql":
		return "internal/tenants"
	case "db/migrations/00115_webhook_events.sql":
		return "internal/webhooks"
	case "db/migrations/00118_events.sql", "db/queries/webhook_endpoints.sql":
		return "internal/events"
	}
	if file, is := strings.CutPrefix(m.where, "db/queries/"); is {
		return "internal/" + strings.TrimSuffix(file, ".sql")
	}
	if strings.HasPrefix(m.where, "db/") {
		return "internal/deadletters"
	}
	return m.where
}
