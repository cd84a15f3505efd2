package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	_ "embed"

	"payonce/lab/world"
)

// switchImport is the package that exists in this build alone.
const switchImport = "payonce/internal/mutant"

//go:embed switch.go.txt
var switchSource string

// change is what a mutant does to a statement or a migration.
type change struct {
	start, end int
	text, file string
}

// plan is all mutants, and the files that have them.
type plan struct {
	mutants []mutant
	files   map[string]string // by their paths below the root
	skipped []string
}

// makePlan reads the product at root.
func makePlan(root string) (plan, error) {
	var c catalogue
	p, changes := plan{files: map[string]string{}}, map[int]change{}
	for _, dir := range packages() {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return p, err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			err := p.rewrite(root, path, func(source string) (string, error) {
				changed, skipped, err := rewriteGo(&c, dir, path, source)
				p.skipped = append(p.skipped, skipped...)
				return changed, err
			})
			if err != nil {
				return p, err
			}
		}
	}
	if err := p.database(&c, root, changes); err != nil {
		return p, err
	}
	p.mutants = c.all
	p.files["internal/mutant/mutant.go"] = switchSource
	p.files["internal/mutant/changes.go"] = changesSource(len(c.all), changes)
	return p, nil
}

// database adds the mutants of the queries and of the migrations.
func (p *plan) database(c *catalogue, root string, changes map[int]change) error {
	queries, err := filepath.Glob(filepath.Join(root, "internal/*/internal/dbsqlc/*.sql.go"))
	if err != nil {
		return err
	}
	for _, path := range queries {
		where := "db/queries/" + strings.TrimSuffix(filepath.Base(path), ".go")
		err := p.rewrite(root, path, func(source string) (string, error) {
			return rewriteQueries(c, where, path, source, changes)
		})
		if err != nil {
			return err
		}
	}
	migrations, err := filepath.Glob(filepath.Join(root, "db/migrations/001*.sql"))
	if err != nil {
		return err
	}
	texts := make([]string, len(migrations))
	for i, path := range migrations {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		texts[i] = string(raw)
	}
	for i, path := range migrations {
		mutantsOfMigration(c, "db/migrations/"+filepath.Base(path), texts[i], texts[i+1:], changes)
	}
	return p.rewrite(root, filepath.Join(root, "db/migrations/migrations.go"), func(source string) (string, error) {
		const files = "return files"
		if strings.Count(source, files) != 1 {
			return "", fmt.Errorf("db/migrations/migrations.go has not one %q: see mutants/overlay.go", files)
		}
		const clause = "package migrations"
		source = strings.Replace(source, files, "return mutant.Files(files)", 1)
		return strings.Replace(source, clause+"\n", clause+`; import mutant "`+switchImport+"\"\n", 1), nil
	})
}

func (p *plan) rewrite(root, path string, change func(string) (string, error)) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := change(string(raw))
	if err != nil {
		return fmt.Errorf("change %s: %w", path, err)
	}
	if changed != string(raw) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		p.files[name] = changed
	}
	return nil
}

// changesSource is the table of changes, as Go.
func changesSource(count int, changes map[int]change) string {
	var out strings.Builder
	fmt.Fprintf(&out, "package mutant\n\nconst count = %d\n\nvar changes = map[int]change{\n", count)
	for _, n := range slices.Sorted(maps.Keys(changes)) {
		c := changes[n]
		fmt.Fprintf(&out, "\t%d: {%d, %d, %s, %q},\n", n, c.start, c.end, strconv.Quote(c.text), c.file)
	}
	return out.String() + "}\n"
}

// write puts the changed files below dir, and returns the file for go build -overlay.
func (p plan) write(root, dir string) (string, error) {
	replace := map[string]string{}
	for name, source := range p.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = path
	}
	return world.WriteAdded(dir, replace)
}
