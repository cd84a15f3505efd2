package archtest

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Citus is a form of deployment. Somebody who reads the product reads nothing of it, by whatever word; somebody who
// takes it away has these files to look at. Each of them must still name it.
var namesCitus = []string{
	".ci/run", "Makefile", "compose.citus.yaml",
	"db/migrations/00110_clock.sql", "db/migrations/00111_tenants.sql", // They are released, so they stay as they are.
	"db/migrations/00112_idempotency_keys.sql",
	"db/migrations/citus/call.go", "db/migrations/citus/citus.go", "db/migrations/citus/citus_test.go",
	"db/migrations/citus/distribute.sql", "db/migrations/citus/function.sql",
	"docs/README.md", "docs/citus.md", "docs/scaling.md",
	"internal/admin/database.go", // the flag
	"internal/postgres/citus.go", "internal/postgres/citus_test.go",
	"lab/citus/cost.go", "lab/citus/cost_test.go", "lab/citus/main.go", "lab/citus/side.go", "lab/world/servers.go",
	"test/archtest/citus_test.go", "test/archtest/imports.go", "test/archtest/rings.go",
	"test/blocks/citus_test.go", "test/cituscluster/cluster.go", "test/cituscluster/cluster_test.go",
	"test/e2e/citus_test.go", "test/pgtest/several.go",
}

const maxNamesCitus = 30

// aboutCitus is a word, in lower case, that means nothing else in this tree, in a path or in a text; or nothing.
func aboutCitus(text string) string {
	text = strings.ToLower(text)
	for _, word := range []string{"citus", " shard", "shardid", "coordinator", "distributed table",
		"tables are distributed", "tables of tenants are distributed"} {
		if strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

// citusBreaches leaves out decisions, the history of changes, and generated code.
func citusBreaches(root fs.FS, names, may []string) ([]breach, error) {
	var breaches []breach
	found := map[string]bool{}
	for _, name := range names {
		if name == "CHANGELOG.md" || strings.HasPrefix(name, "docs/adr/") ||
			strings.Contains(name, "/internal/dbsqlc/") || name == "db/migrations/citus/statements.sql" {
			continue
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("look for Citus: %w", err)
		}
		word := aboutCitus(name + "\n" + string(content))
		found[name] = word != ""
		if found[name] && !slices.Contains(may, name) {
			breaches = append(breaches, breach{name, fmt.Sprintf("has %q, and is no file about Citus", word)})
		}
	}
	for _, name := range may {
		if !found[name] {
			breaches = append(breaches, breach{name, "does not name Citus any more: take it off the list"})
		}
	}
	return breaches, nil
}

func TestFewFilesNameCitus(t *testing.T) {
	t.Parallel()
	root, names := tracked(t)
	breaches, err := citusBreaches(root, names, namesCitus)
	if err != nil {
		t.Fatal(err)
	}
	report(t, breaches)
	if n := len(namesCitus); n > maxNamesCitus {
		t.Errorf("%d files may name Citus, want %d at most", n, maxNamesCitus)
	}
}

func TestCitusIsFoundByEachOfItsWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"pgtest.OnCitus()": 1, "citus_shards": 1, "each shard": 1, "shardid": 1, "the coordinator": 1,
		"where tables are distributed": 1, "a distributed table": 1,
		"distributed locking": 0, "a worker": 0, "orchard": 0, "distribution": 0,
	} {
		root := fstest.MapFS{"a.go": {Data: []byte(text)}}
		if breaches, err := citusBreaches(root, []string{"a.go"}, nil); err != nil || len(breaches) != want {
			t.Errorf("%q: %v, %v", text, breaches, err)
		}
	}
	files := []string{"docs/adr/a.md", "CHANGELOG.md", "internal/a/internal/dbsqlc/a.go", "citus.yaml", "b.go", "c.go"}
	root := fstest.MapFS{}
	for _, name := range files {
		root[name] = &fstest.MapFile{Data: []byte("Citus")}
	}
	root["citus.yaml"], root["c.go"] = &fstest.MapFile{}, &fstest.MapFile{}
	breaches, err := citusBreaches(root, files, []string{"b.go", "c.go"})
	if err != nil || len(breaches) != 2 || breaches[0].where != "citus.yaml" || breaches[1].where != "c.go" {
		t.Errorf("%v, %v; want the one by its path, and the one that is listed for nothing", breaches, err)
	}
}
