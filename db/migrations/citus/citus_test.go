package citus_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"payonce/db/migrations/citus"
)

// make generate writes the statements of the functions, as sqlc has made them of db/queries, into the file.
var update = flag.Bool("update", false, "write statements.sql")

// The functions run the very statements that one server runs.
func TestStatementsAreThoseOfTheQueries(t *testing.T) {
	t.Parallel()
	texts := textsOf(t)
	want := "-- Written by make generate. DO NOT EDIT.\n"
	written := map[string]bool{}
	for _, transaction := range citus.Names() {
		for _, name := range transaction {
			text, ok := texts[name]
			if !ok {
				t.Errorf("no statement has the name %s", name)
			}
			if !written[name] {
				want += "\n" + strings.TrimSpace(text) + "\n"
			}
			written[name] = true
		}
	}
	if *update {
		if err := os.WriteFile("statements.sql", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if citus.File("statements.sql") != want {
		t.Error("statements.sql is not what db/queries says: make generate")
	}
	for _, transaction := range citus.Names() {
		sent := ""
		for _, name := range transaction {
			sent += texts[name]
		}
		if caller, has := citus.Callers()[sent]; !has || caller.Tenant == 0 {
			t.Errorf("%v is not called", transaction)
		}
	}
}

// textsOf finds the texts of all statements with a name.
func textsOf(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../../internal/*/internal/dbsqlc/*.sql.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("find the statements: %v", err)
	}
	texts := map[string]string{}
	for _, file := range append(files, "../../../internal/postgres/durability.go") {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && strings.HasPrefix(text, "-- name: ") {
					texts[citus.NameOf(text)] = text
				}
			}
			return true
		})
	}
	return texts
}

// Only by a condition on the column does Citus know which worker has the rows.
func TestStatementOverArraysNamesItsTenants(t *testing.T) {
	t.Parallel()
	const sql = "SELECT k.* FROM (SELECT unnest($1::text[]) AS key, unnest($2::text[]) AS tenant_id) AS a " +
		"JOIN idempotency_keys AS k ON k.tenant_id = a.tenant_id AND k.key = a.key"
	want := strings.Replace(sql, " AND", " AND k.tenant_id = ANY ($2::text[]) AND", 1)
	if got := citus.NameTenant(sql); got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	const other = "SELECT p.id FROM payments AS p JOIN refunds AS r ON r.tenant_id = p.tenant_id"
	if got := citus.NameTenant(other); got != other {
		t.Errorf("a statement without such an array has become %s", got)
	}
}

// A table that kept its name would be read through Citus, from another session.
func TestFunctionKnowsShardsOnly(t *testing.T) {
	t.Parallel()
	of := map[string]string{}
	names := []string{"tenants", "idempotency_keys", "idempotency_key_events", "idempotency_key_tombstones", "payments",
		"refunds", "disputes", "events"}
	for _, name := range names {
		of[name] = name + "_7"
	}
	shardless := "(?:" + strings.Join(names, "|") + ")"
	left := regexp.MustCompile(`(?i)(?:\b(?:FROM|JOIN|INTO|UPDATE|USING|ONLY)\s+` + shardless + `\b|,\s+` + shardless +
		`\s+AS\b)`)
	for _, texts := range citus.Transactions() {
		shapes := make([]citus.Shape, len(texts))
		for i := range shapes {
			shapes[i].Returns = true
		}
		function := citus.Function(texts, shapes, []int64{7}, citus.Shards{7: of})
		if found := left.FindString(function); found != "" {
			t.Errorf("%s: %q is no shard", citus.FunctionOf(texts), found)
		}
		if !strings.Contains(function, "_7 ") || !strings.Contains(function, "{") {
			t.Errorf("%s names no shard", citus.FunctionOf(texts))
		}
	}
	if !left.MatchString("FROM payments p") || left.MatchString("FROM payments_7 AS p") {
		t.Error("the test does not see what it looks for")
	}
}
