package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Ring is a part of the tree that can be taken away without touching the rings inside of it.
type Ring struct {
	Name    string
	Members []string // packages, and single files of a package whose other files are further in
}

// Rings are all packages that there are, from the inside out. An inner ring never imports an outer one: somebody who
// starts a service of their own from this takes the core. A new package is added here first, which is the moment to ask
// what it may import.
var Rings = []Ring{
	{"core", []string{
		"cmd/api", "cmd/reconciler", "db/migrations",
		"internal/admin",
		"internal/app",
		"internal/cardnumber",
		"internal/cli",
		"internal/config",
		"internal/deadletters",
		"internal/gateway", "internal/gateway/native", "internal/gateway/wire",
		"internal/httpapi",
		"internal/idempotency",
		"internal/judge",
		"internal/payment",
		"internal/payments",
		"internal/postgres",
		"internal/problem",
		"internal/query",
		"internal/reconcile",
		"internal/telemetry",
		"internal/tenants",
		"internal/tracing",
		"internal/watch",
		"internal/webhooks",
	}},
	{"operations", []string{
		"cmd/reconciler/operations.go",
		"db/migrations/citus",
		"internal/app/memory.go", "internal/app/operations.go", "internal/app/processors.go",
		"internal/console",
		"internal/deadletters/list.go", "internal/deadletters/resolve.go",
		"internal/events",
		"internal/gateway/line.go", "internal/gateway/statement.go",
		"internal/gateway/native/settlement.go", "internal/gateway/native/statement.go",
		"internal/gateway/stripe",
		"internal/gateway/wire/stream.go",
		"internal/httpapi/endpoints.go", "internal/httpapi/feed.go",
		"internal/httpapi/operator.go", "internal/httpapi/operator_deadletters.go",
		"internal/httpapi/operator_several.go",
		"internal/httpapi/pages",
		"internal/judge/deadletter.go", "internal/judge/operator.go", "internal/judge/pspanswer.go",
		"internal/judge/refusal.go", "internal/judge/statement.go",
		"internal/look",
		"internal/operator", "internal/operator/commands",
		"internal/payments/deadletter.go", "internal/payments/inquire.go", "internal/payments/statement.go",
		"internal/postgres/citus.go",
		"internal/primary",
		"internal/reconcile/events.go", "internal/reconcile/operations.go", "internal/reconcile/queue.go",
		"internal/sequence",
		"internal/statement",
		"internal/telemetry/backlog.go",
		"internal/tracing/collect.go",
	}},
	{"stage", []string{
		"client", "cmd/demo", "cmd/mockpsp", "course/...",
		"demo/controls", "demo/embeddedpg", "demo/mockpsp", "demo/mockpsp/stripe", "demo/shop",
		"demo/supervisor", "demo/windows",
		"deploy", "deploy/composecheck", "docs",
		"test/heldport", "test/httpproxy", "test/pgproxy", // The demo holds payments at crash windows with them.
	}},
	{"proof", []string{
		"lab/...",
		"test/archtest", "test/blocks", "test/cituscluster", "test/consumer", "test/contract",
		"test/e2e", "test/golden", "test/pgtest",
		"test/psp", "test/release", "test/testrun", "test/wait",
		"tools/readingpath", "tools/size", "tools/structure",
	}},
}

// Support is what the tests of the core need: the finder of PostgreSQL, one mock of a PSP, and the helpers of tests.
// The packages are of outer rings. They go with the core when it is copied, without the files that have a ring of their
// own.
var Support = []string{
	"demo/embeddedpg", "demo/mockpsp",
	"internal/look", // The mock's page has the style of all pages.
	"test/cituscluster", "test/contract", "test/golden", "test/heldport", "test/pgproxy", "test/pgtest",
	"test/wait",
}

// ringOf is the number of the ring of a file or a package, or -1 if it has no place.
func ringOf(name string) int {
	return slices.IndexFunc(Rings, func(r Ring) bool { return matchesAny(r.Members, name) })
}

// RingOf is the number in Rings of any file of the tree, or -1. A file that is named alone is in the ring that names
// it. A test is in the ring of the file that it is called after: operator_setup_test.go follows operator.go. And a test
// called after a ring, such as apply_operations_test.go, is in that ring. All else is in the ring of its package, also
// what lies in folders below the package.
func RingOf(file string) int {
	if named := ringOfFile(file); named >= 0 {
		return named
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if own := ringOf(dir); own >= 0 {
			return own
		}
	}
	return -1
}

// ringOfFile is the ring of a file that is not in the ring of its package, or -1.
func ringOfFile(file string) int {
	if named := ringOf(file); named >= 0 {
		return named
	}
	called, test := strings.CutSuffix(file, "_test.go")
	if !test {
		return -1
	}
	for i, r := range Rings {
		if base := path.Base(called); base == r.Name || strings.HasSuffix(base, "_"+r.Name) {
			return i
		}
	}
	for called != "" {
		if named := ringOf(called + ".go"); named >= 0 {
			return named
		}
		called = called[:max(strings.LastIndex(called, "_"), 0)]
	}
	return -1
}

// Supports tells whether a file goes with the core for its tests.
func Supports(file string) bool {
	if ringOfFile(file) >= 0 {
		return false
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if ringOf(dir) >= 0 {
			return slices.Contains(Support, dir)
		}
	}
	return false
}

// ringBreaches finds the imports of outer rings. Tests may use whatever proves something, except those that are copied
// with the core: its own, and those of its support.
func ringBreaches(sources []source) []breach {
	var breaches []breach
	for _, file := range sources {
		own := RingOf(file.path)
		carried := Supports(file.path) || file.test && own == 0
		if own < 0 || file.test && !carried {
			continue
		}
		for _, target := range file.imports() {
			dir, ours := strings.CutPrefix(target, modulePath+"/")
			other := ringOf(owner(dir))
			switch {
			case !ours || other <= 0:
			case carried && !slices.Contains(Support, dir):
				breaches = append(breaches, breach{file.path,
					fmt.Sprintf("imports %s: what is copied with the core imports the core and what is copied", target)})
			case !carried && other > own:
				breaches = append(breaches, breach{file.path,
					fmt.Sprintf("imports %s: the %s never knows the %s", target, Rings[own].Name, Rings[other].Name)})
			}
		}
	}
	return breaches
}

// maxCoreLines bounds what somebody has to read who takes the core: its lines of Go, without tests and generated code.
const maxCoreLines = 19_000

func coreLengthBreaches(sources []source) []breach {
	lines := 0
	for _, file := range sources {
		if !file.test && !file.generated && RingOf(file.path) == 0 {
			lines += file.lines
		}
	}
	if lines <= maxCoreLines {
		return nil
	}
	return []breach{{"the core", fmt.Sprintf("has %d lines, of %d at most: what do payments do without?", lines,
		maxCoreLines)}}
}

// placeBreaches finds the packages that are in no ring.
func placeBreaches(sources []source) []breach {
	var breaches []breach
	reported := map[string]bool{}
	for _, file := range sources {
		dir := owner(file.dir)
		if reported[dir] || ringOf(dir) >= 0 {
			continue
		}
		reported[dir] = true
		breaches = append(breaches, breach{dir, "the rings in test/archtest/rings.go have no place for it"})
	}
	return breaches
}

// owner is the package that a package of generated queries belongs to, or the package itself.
func owner(dir string) string { return strings.TrimSuffix(dir, generatedQueries) }
