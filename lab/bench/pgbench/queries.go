package pgbench

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return nil, fmt.Errorf("read generated queries: %w", err)
		}
		// internal/<owner>/internal/dbsqlc/<file>
		owner := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(path))))
		if err := collect(file, owner, queries); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return queries, nil
}

var heading = regexp.MustCompile(`^-- name: (\w+) :`)

// collect adds the queries of one file.
func collect(file *ast.File, owner string, queries map[string]Query) error {
	parameters := parameterStructs(file)
	for _, literal := range stringConstants(file) {
		sql, err := strconv.Unquote(literal)
		if err != nil {
			return err
		}
		match := heading.FindStringSubmatch(sql)
		if match == nil {
			continue
		}
		queries[owner+"."+match[1]] = Query{Name: match[1], SQL: withoutComments(sql),
			Parameters: parameters[match[1]+"Params"]}
	}
	return nil
}

func stringConstants(file *ast.File) []string {
	var literals []string
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			for _, value := range s.(*ast.ValueSpec).Values { //nolint:forcetypeassert // of a CONST
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					literals = append(literals, literal.Value)
				}
			}
		}
	}
	return literals
}

// parameterStructs are the structs of arguments by name: one field for each parameter, in order.
func parameterStructs(file *ast.File) map[string][]string {
	structs := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if fields, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					structs[spec.Name.Name] = append(structs[spec.Name.Name], name.Name)
				}
			}
		}
		return false
	})
	return structs
}

// withoutComments drops the heading and what follows it: pgbench would take ":one" for a variable.
func withoutComments(sql string) string {
	var kept []string
	for line := range strings.Lines(sql) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "--") {
			kept = append(kept, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(kept, "\n")
}

var placeholder = regexp.MustCompile(`\$\d+`)

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
