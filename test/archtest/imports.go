package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// importRule forbids some packages some imports, outside of test files.
// Patterns are those of the go command: "x/..." is x and all below it.
type importRule struct {
	packages []string // directories that the rule binds; none means all
	except   []string // and among them those it doesn't
	refuses  []string // import paths
	allows   []string // and among them those that are fine
	because  string
}

// thirdParty matches each import path that begins with the name of a host: none of the standard library does.
const thirdParty = "*.*/..."

// importTable is who may import whom inside of the rings (rings.go). The layers
// lean one way: cmd and app wire, httpapi and reconcile drive, payments
// decides, and what lies below payments has never heard of a payment.
var importTable = []importRule{
	{
		packages: []string{"internal/idempotency/...", "internal/gateway/...", "internal/webhooks/..."},
		refuses: []string{"payonce/internal/payment/...", "payonce/internal/judge/...", "payonce/internal/payments/...",
			"payonce/internal/httpapi/..."},
		because: "keys, the PSP client and webhooks know nothing of payments",
	},
	{
		packages: []string{"internal/payment/..."},
		refuses: []string{"context/...", "github.com/jackc/...", "payonce/internal/postgres/...",
			"payonce/internal/payments/..."},
		because: "the nouns read and write nothing",
	},
	{
		packages: []string{"internal/judge/..."},
		refuses: []string{"context/...", "net/http/...", "github.com/jackc/...", "payonce/internal/postgres/...",
			"payonce/internal/payments/..."},
		because: "judge is pure: it asks nobody",
	},
	{
		packages: []string{"internal/gateway/..."},
		refuses:  []string{"github.com/jackc/...", "database/sql/...", "payonce/internal/postgres/..."},
		because:  "a PSP call must not be able to happen inside a transaction",
	},
	{
		except:  []string{"internal/app/...", "internal/gateway/..."},
		refuses: []string{"payonce/internal/gateway/..."},
		allows:  []string{"payonce/internal/gateway"},
		because: "only app knows which dialects there are: everything else uses the port",
	},
	{
		packages: []string{"internal/gateway/..."},
		refuses:  []string{"payonce/internal/gateway/..."},
		allows:   []string{"payonce/internal/gateway", "payonce/internal/gateway/wire"},
		because:  "a dialect knows no other dialect, and the port knows none",
	},
	{
		except:  []string{"internal/reconcile/...", "internal/app/...", "cmd/..."},
		refuses: []string{"github.com/riverqueue/..."},
		because: "only reconcile and the wiring know the job queue",
	},
	{
		except:  []string{"internal/httpapi/..."},
		refuses: []string{"github.com/go-chi/..."},
		because: "only httpapi knows the router",
	},
	{
		except:  []string{"internal/tracing/..."},
		refuses: []string{"go.opentelemetry.io/..."},
		because: "only tracing makes attributes, so no key, token or body can become one",
	},
	{
		refuses: []string{"payonce/cmd/..."},
		because: "commands are the end of the line: nothing imports them",
	},
	{
		except:  []string{"cmd/...", "demo/supervisor/...", "lab/grade/payonce", "test/..."},
		refuses: []string{"payonce/internal/app/..."},
		because: "the composition root sees everything, so only programs and whole-system tests see it",
	},
	{
		packages: []string{"client/..."},
		refuses:  []string{"payonce/...", thirdParty},
		because:  "callers copy the client into programs of their own: it imports the standard library only",
	},
	{
		packages: []string{
			"internal/config/...", "internal/telemetry/...", "internal/problem/...", "internal/cardnumber/...",
			"internal/cli/...", "internal/look/...", "internal/tracing/...",
			"demo/embeddedpg/...", "demo/mockpsp",
		},
		refuses: []string{"payonce/..."},
		allows:  []string{"payonce/internal/look"},
		because: "leaves import no package of ours but the style of the pages",
	},
	{
		packages: []string{"demo/mockpsp/stripe"},
		refuses:  []string{"payonce/..."},
		allows:   []string{"payonce/demo/mockpsp"},
		because:  "a dialect of the mock PSP knows the mock PSP, and nothing of those who call it",
	},
	{
		packages: []string{"internal/query/..."},
		refuses:  []string{"payonce/..."},
		allows:   []string{"payonce/internal/problem"},
		because:  "query reads texts, and knows nothing that they select",
	},
	{
		packages: []string{"internal/postgres/..."},
		refuses:  []string{"payonce/..."},
		allows:   []string{"payonce/db/migrations/..."},
		because:  "postgres is a leaf that applies the schema and knows no table",
	},
	{
		except:  []string{"lab/..."},
		refuses: []string{"payonce/lab/..."},
		because: "the labs are a module of their own, and nothing outside of it needs them",
	},
	{
		packages: []string{"course/..."},
		refuses:  []string{"payonce/..."},
		because:  "the steps of the course are whole programs: a reader needs nothing of Payonce to understand them",
	},
	{
		except:  []string{"lab/start", "test/..."}, // what starts a copy of the tree asks for the rings
		refuses: []string{"payonce/test/..."},
		allows: []string{"payonce/test/cituscluster", "payonce/test/heldport", "payonce/test/httpproxy",
			"payonce/test/pgproxy"},
		because: "test support stays out of the binaries",
	},
	{
		except:  []string{"lab/...", "test/..."},
		refuses: []string{"payonce/test/cituscluster/...", "payonce/test/heldport/..."},
		because: "the held ports and the cluster are for packages that start the programs",
	},
	{
		except:  []string{"lab/...", "test/...", "demo/windows/..."},
		refuses: []string{"payonce/test/httpproxy/...", "payonce/test/pgproxy/..."},
		because: "the proxies are for packages that make the network fail",
	},
	{
		packages: []string{"demo/windows/..."},
		refuses:  []string{"payonce/..."},
		allows:   []string{"payonce/test/httpproxy", "payonce/test/pgproxy", "payonce/docs"},
		because:  "the windows are held from outside: by the proxies, and by nothing in the product's code",
	},
	{
		packages: []string{"test/httpproxy/...", "test/pgproxy/..."},
		refuses:  []string{"testing/..."},
		because:  "the demo links the proxies, and a program for people does not link package testing",
	},
}

func importBreaches(sources []source) []breach {
	var breaches []breach
	for _, file := range sources {
		if file.test {
			continue
		}
		for _, target := range file.imports() {
			for _, rule := range importTable {
				if rule.forbids(file.dir, target) {
					breaches = append(breaches, breach{file.path, fmt.Sprintf("imports %s: %s", target, rule.because)})
				}
			}
		}
	}
	return breaches
}

func (r importRule) forbids(dir, target string) bool {
	bound := len(r.packages) == 0 || matchesAny(r.packages, dir)
	return bound && !matchesAny(r.except, dir) &&
		matchesAny(r.refuses, target) && !matchesAny(r.allows, target)
}

// generatedQueries is where sqlc writes, below the package that owns the
// tables. The compiler stops other trees; this stops the owner's neighbours
// and children, and counts for tests too.
const generatedQueries = "/internal/dbsqlc"

func tableOwnerBreaches(sources []source) []breach {
	var breaches []breach
	for _, file := range sources {
		for _, target := range file.imports() {
			owner, found := strings.CutSuffix(strings.TrimPrefix(target, modulePath+"/"), generatedQueries)
			if found && file.dir != owner {
				breaches = append(breaches, breach{file.path, "imports " + target + ": only " + owner +
					" touches its tables"})
			}
		}
	}
	return breaches
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) })
}

func matches(pattern, name string) bool {
	if pattern == thirdParty {
		host, _, _ := strings.Cut(name, "/")
		return strings.Contains(host, ".")
	}
	prefix, recursive := strings.CutSuffix(pattern, "/...")
	return name == prefix || recursive && strings.HasPrefix(name, prefix+"/")
}
