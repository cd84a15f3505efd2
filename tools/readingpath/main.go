// Command readingpath counts the lines of the reading path that README.md names, and of its closure: the functions,
// types and statements that the path names elsewhere in the product. It enforces nothing. A path that is short because
// it sends its reader to fifty other places is not short:
//
//	go run -C tools ./readingpath
//
// A name is looked up without types, in the package of the file, or in the package before the dot. So the closure is
// what a reader would look up, give or take a few.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// onPath are the statements of idempotency.sql that the path has. An empty name is what stands before the first.
var onPath = map[string]bool{
	"": true, "ReserveKeys": true, "RetakeKey": true, "RenewKey": true, "CompleteKeys": true, "ResolveKeys": true,
	"ReleaseKey": true, "LoseKey": true, "ReleaseUnknownKey": true,
}

var pathFiles = []string{
	"internal/payments/execute.go", "internal/judge/evidence.go", "internal/judge/reply.go",
	"internal/judge/record.go", "internal/judge/lookup.go", "internal/idempotency/take.go",
	"internal/payments/apply.go", "db/queries/idempotency.sql", "db/migrations/00112_idempotency_keys.sql",
	"db/migrations/00113_payments.sql",
}

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "readingpath:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	totals := map[string]int{}
	for _, name := range pathFiles {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		all, code := count(string(content), strings.HasPrefix(name, "db/queries"))
		totals[filepath.Ext(name)] += all
		fmt.Printf("%5d lines, %4d of code  %s\n", all, code, name)
	}
	fmt.Printf("%5d lines of Go, %d lines of SQL\n\nThe closure of the Go files, by file:\n", totals[".go"], totals[".sql"])
	return closure(root)
}

// count counts the lines of a file, and those of them that are neither comments nor empty.
func count(content string, queries bool) (all, code int) {
	query := ""
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if name, found := strings.CutPrefix(line, "-- name: "); found {
			query, _, _ = strings.Cut(name, " ")
		}
		if queries && !onPath[query] {
			continue
		}
		all++
		if line != "" && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "--") {
			code++
		}
	}
	return all, code
}

// declaration is a function, a method or a type of the product.
type declaration struct {
	file  string
	lines int
}

// closure prints what the files of the path name elsewhere.
func closure(root string) error {
	declared := map[string][]declaration{} // by package and name; methods by their name alone
	trees := map[string]*ast.File{}
	positions := token.NewFileSet()
	err := fs.WalkDir(os.DirFS(root), "internal", func(name string, d fs.DirEntry, err error) error {
		test, generated := strings.HasSuffix(name, "_test.go"), strings.Contains(name, "dbsqlc")
		if err != nil || path.Ext(name) != ".go" || test || generated {
			return err
		}
		tree, err := parser.ParseFile(positions, filepath.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		trees[name] = tree
		for _, d := range tree.Decls {
			for _, n := range names(d) {
				lines := positions.Position(d.End()).Line - positions.Position(d.Pos()).Line + 1
				key := path.Base(path.Dir(name)) + "." + n
				declared[key] = append(declared[key], declaration{name, lines})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	met, byFile := map[string]bool{}, map[string]int{}
	for _, name := range pathFiles {
		if tree := trees[name]; tree != nil {
			for _, key := range mentioned(tree) {
				for _, d := range declared[key] {
					if !met[d.file+key] && !slices.Contains(pathFiles, d.file) {
						met[d.file+key] = true
						byFile[d.file] += d.lines
					}
				}
			}
		}
	}
	print(byFile, len(met))
	return nil
}

func print(byFile map[string]int, places int) {
	var files []string
	sum := 0
	for file, lines := range byFile {
		files = append(files, file)
		sum += lines
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(byFile[b]-byFile[a], strings.Compare(a, b)) })
	for _, file := range files {
		fmt.Printf("%5d lines  %s\n", byFile[file], file)
	}
	fmt.Printf("%5d lines at %d places in %d files\n", sum, places, len(files))
}

// names are what a declaration declares.
func names(d ast.Decl) (all []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		all = append(all, d.Name.Name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if t, ok := s.(*ast.TypeSpec); ok {
				all = append(all, t.Name.Name)
			}
		}
	}
	return all
}

// mentioned are the names that a file uses, with the package in which they may be: its own, or the one before the dot.
func mentioned(tree *ast.File) (all []string) {
	imported := map[string]bool{}
	for _, i := range tree.Imports {
		imported[path.Base(strings.Trim(i.Path.Value, `"`))] = true
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if p, ok := n.X.(*ast.Ident); ok && imported[p.Name] {
				all = append(all, p.Name+"."+n.Sel.Name)
				return false
			}
			// A method of a type of this package, or of one that it imports.
			for other := range imported {
				all = append(all, other+"."+n.Sel.Name)
			}
			all = append(all, tree.Name.Name+"."+n.Sel.Name)
		case *ast.Ident:
			all = append(all, tree.Name.Name+"."+n.Name)
		}
		return true
	})
	return all
}
