package archtest

import (
	"slices"
	"strings"
	"testing"
)

func importing(target string) string {
	return "import _ \"" + target + "\"\n"
}

// Each row of the table is broken once by a package that it binds, with the
// first import that it refuses.
func TestEachImportRuleCanFail(t *testing.T) {
	t.Parallel()
	for _, rule := range importTable {
		t.Run(rule.because, func(t *testing.T) {
			t.Parallel()
			dirs := rule.packages
			if len(dirs) == 0 {
				dirs = []string{"internal/tenants/..."}
			}
			for _, dir := range dirs {
				for _, target := range rule.refuses {
					file := strings.TrimSuffix(dir, "/...") + "/a.go"
					sources := parse(t, map[string]string{file: importing(strings.TrimSuffix(target, "...") + "x")})
					found := slices.ContainsFunc(importBreaches(sources), func(b breach) bool {
						return b.where == file && strings.HasSuffix(b.why, rule.because)
					})
					if !found {
						t.Errorf("%s may import %s", file, target)
					}
				}
			}
		})
	}
}

func TestImportTableLetsTheDesignBe(t *testing.T) {
	t.Parallel()
	wantNone(t, importBreaches(parse(t, map[string]string{
		"cmd/api/a.go":           importing("payonce/internal/app"),
		"demo/supervisor/a.go":   importing("payonce/internal/app") + importing("payonce/demo/embeddedpg"),
		"demo/windows/a.go":      importing("payonce/test/httpproxy") + importing("payonce/test/pgproxy"),
		"internal/app/a.go":      importing("github.com/riverqueue/river"),
		"internal/httpapi/a.go":  importing("github.com/go-chi/chi/v5") + importing("payonce/internal/payments"),
		"internal/payments/a.go": importing("payonce/internal/idempotency") + importing("payonce/internal/gateway"),
		"internal/postgres/a.go": importing("payonce/db/migrations") + importing("github.com/jackc/pgx/v5"),
		"lab/world/a.go": importing("payonce/demo/mockpsp") + importing("payonce/test/pgproxy") +
			importing("payonce/lab/history"),
		"test/pgtest/a.go":           importing("payonce/demo/embeddedpg"),
		"test/contract/a.go":         importing("payonce/internal/app") + importing("payonce/test/pgtest"),
		"internal/reconcile/a.go":    importing("github.com/riverqueue/river"),
		"client/a.go":                importing("encoding/json") + importing("math/rand/v2"),
		"client/a_test.go":           importing("github.com/google/go-cmp/cmp"),
		"lab/caller/a.go":            importing("payonce/client"),
		"internal/gateway/a_test.go": importing("payonce/demo/mockpsp"),
	})))
}

func TestClientMayImportOnlyTheStandardLibrary(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"payonce/internal/problem", "github.com/google/uuid", "golang.org/x/time/rate"} {
		wantBreach(t, importBreaches(parse(t, map[string]string{"client/a.go": importing(target)})), "client/a.go")
	}
}

func TestPostgresMayImportOnlyTheMigrations(t *testing.T) {
	t.Parallel()
	wantBreach(t, importBreaches(parse(t, map[string]string{
		"internal/postgres/a.go": importing("payonce/internal/tenants"),
	})), "internal/postgres/a.go")
}

func TestGeneratedQueriesBelongToTheirPackageAlone(t *testing.T) {
	t.Parallel()
	const queries = "payonce/internal/payments/internal/dbsqlc"
	wantNone(t, tableOwnerBreaches(parse(t, map[string]string{"internal/payments/a.go": importing(queries)})))
	for _, file := range []string{"internal/payments/below/a.go", "internal/tenants/a.go",
		"internal/tenants/a_test.go"} {
		wantBreach(t, tableOwnerBreaches(parse(t, map[string]string{file: importing(queries)})), file)
	}
}
