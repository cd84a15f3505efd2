package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// ring is a part of the tree that can be taken away without touching the rings inside of it.
type ring struct {
	name    string
	members []string // packages, and single files of a package whose other files are further in
}

// rings are all packages that there are, from the inside out. An inner ring never imports an outer one: somebody who
// starts a service of their own from this takes the core. A new package is added here first, which is the moment to ask
// what it may import.
var rings = []ring{
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
		"internal/app/operations.go",
		"internal/console",
		"internal/events",
		"internal/gateway/stripe",
		"internal/httpapi/endpoints.go", "internal/httpapi/feed.go",
		"internal/httpapi/operator.go", "internal/httpapi/operator_deadletters.go",
		"internal/httpapi/operator_several.go",
		"internal/httpapi/pages",
		"internal/look",
		"internal/operator", "internal/operator/commands",
		"internal/reconcile/events.go", "internal/reconcile/operations.go",
		"internal/sequence",
		"internal/statement",
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

// ringOf is the number of the ring of a file or a package, or -1 if it has no place.
func ringOf(name string) int {
	return slices.IndexFunc(rings, func(r ring) bool { return matchesAny(r.members, name) })
}

// ringBreaches leaves tests alone: they may use whatever proves something.
func ringBreaches(sources []source) []breach {
	var breaches []breach
	for _, file := range sources {
		if file.test {
			continue
		}
		own := max(ringOf(file.path), ringOf(owner(file.dir)))
		for _, target := range file.imports() {
			dir, ours := strings.CutPrefix(target, modulePath+"/")
			if other := ringOf(owner(dir)); ours && own >= 0 && other > own {
				breaches = append(breaches, breach{file.path,
					fmt.Sprintf("imports %s: the %s never knows the %s", target, rings[own].name, rings[other].name)})
			}
		}
	}
	return breaches
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
