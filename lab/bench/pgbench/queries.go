// Package pgbench has PostgreSQL's own benchmark run the very statements that Payonce sends. What it reaches is the
// ceiling: no HTTP, no JSON, no PSP, a client in C.
//
// It owns the way from a generated query to a pgbench script, and the reading of pgbench's report. The SQL comes from
// the files that sqlc has written, with their parameters by name: a query that changes changes the script, and a
// parameter without a value is an error. It refuses to know what is compared with what.
//
// pgbench can count and draw numbers but not make a UUID, so keys and ids are computed from numbers within the
// statement. That costs the server about a microsecond, which makes the ceiling lower by as much.
package pgbench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Query is a generated query: its text, and the names of its parameters in the order of their numbers.
type Query struct {
	Name       string
	SQL        string
	Parameters []string
}

// generated is where sqlc writes, below the module's root.
const generated = "internal/*/internal/dbsqlc/*.sql.go"

var (
	queryText   = regexp.MustCompile("(?s)const \\w+ = `-- name: (\\w+) :\\w+\n(.*?)`")
	parameters  = regexp.MustCompile(`(?ms)^type (\w+)Params struct \{\n(.*?)^\}`)
	field       = regexp.MustCompile(`(?m)^\t(\w+) `)
	comment     = regexp.MustCompile(`(?m)^\s*(--.*)?\n`) // pgbench would take ":one" in it for a variable
	placeholder = regexp.MustCompile(`\$\d+`)
)

// Queries reads all generated queries of the source tree at root, by their owner and name: "idempotency.ReserveKeys".
func Queries(root string) (map[string]Query, error) {
	files, err := filepath.Glob(filepath.Join(root, generated))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no generated queries below %s: run from the source tree", root)
	}
	queries := map[string]Query{}
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read generated queries: %w", err)
		}
		fields := map[string][]string{}
		for _, match := range parameters.FindAllStringSubmatch(string(source), -1) {
			for _, f := range field.FindAllStringSubmatch(match[2], -1) {
				fields[match[1]] = append(fields[match[1]], f[1])
			}
		}
		// internal/<owner>/internal/dbsqlc/<file>
		owner := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(path))))
		for _, match := range queryText.FindAllStringSubmatch(string(source), -1) {
			name := match[1]
			queries[owner+"."+name] = Query{Name: name, SQL: strings.TrimSpace(comment.ReplaceAllString(match[2], "")),
				Parameters: fields[name]}
		}
	}
	return queries, nil
}

// with is the query with an expression in the place of each parameter.
func (q Query) with(values map[string]string) (string, error) {
	var missing []string
	text := placeholder.ReplaceAllStringFunc(q.SQL, func(dollar string) string {
		n, err := strconv.Atoi(dollar[1:])
		if err != nil || n < 1 || n > len(q.Parameters) {
			missing = append(missing, dollar)
			return dollar
		}
		value, ok := values[q.Parameters[n-1]]
		if !ok {
			missing = append(missing, q.Parameters[n-1])
		}
		return value
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("query %s: no value for %s", q.Name, strings.Join(missing, ", "))
	}
	return text + ";", nil
}
