package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tree is what bugs can be planted in: the declarations of the product, and the functions of its schema.
type tree struct {
	lines  map[string][]string // of each file
	places map[string][]place  // by name
}

// place is where a declaration is: its lines, from begin up to end.
type place struct {
	file       string
	begin, end int
}

// readTree reads the product at root.
func readTree(root string) (*tree, error) {
	t := &tree{map[string][]string{}, map[string][]place{}}
	for _, dir := range []string{"cmd", "db/migrations", "demo", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			switch {
			case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
				return t.readGo(path, name)
			case strings.HasSuffix(name, ".sql"):
				return t.readSQL(path, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tree) read(path, name string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	t.lines[name] = strings.Split(string(raw), "\n")
	return raw, err
}

func (t *tree) add(declared string, p place) { t.places[declared] = append(t.places[declared], p) }

// readGo finds functions, methods as Type.Method, types, and constants and variables.
func (t *tree) readGo(path, name string) error {
	raw, err := t.read(path, name)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, raw, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := func(n ast.Node) place {
		return place{name, files.Position(n.Pos()).Line - 1, files.Position(n.End()).Line}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			t.add(receiver(d)+d.Name.Name, lines(d))
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					t.add(s.Name.Name, lines(s))
				case *ast.ValueSpec:
					t.add(s.Names[0].Name, lines(s))
				}
			}
		}
	}
	return nil
}

// receiver is the type of a method, with a dot.
func receiver(d *ast.FuncDecl) (named string) {
	if d.Recv == nil {
		return ""
	}
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && named == "" {
			named = id.Name + "."
		}
		return named == ""
	})
	return named
}

var sqlFunction = regexp.MustCompile(`^CREATE (?:OR REPLACE )?FUNCTION (\w+)`)

func (t *tree) readSQL(path, name string) error {
	if _, err := t.read(path, name); err != nil {
		return err
	}
	lines := t.lines[name]
	for i, line := range lines {
		if m := sqlFunction.FindStringSubmatch(line); m != nil {
			length := slices.Index(lines[i:], "-- +goose StatementEnd")
			if length < 0 {
				length = len(lines) - i
			}
			t.add(m[1], place{name, i, i + length})
		}
	}
	return nil
}

// find finds a declaration by its name, or by its directory and name.
func (t *tree) find(wanted string) (place, error) {
	dir, declared, both := strings.Cut(wanted, " ")
	if !both {
		dir, declared = "", wanted
	}
	found := slices.Clone(t.places[declared])
	if both {
		found = slices.DeleteFunc(found, func(p place) bool { return filepath.Dir(p.file) != dir })
	}
	switch len(found) {
	case 0:
		return place{}, fmt.Errorf("nothing is named %s", wanted)
	case 1:
		return found[0], nil
	}
	return place{}, fmt.Errorf("%s is in %s and in %s: put the directory before it", declared, found[0].file,
		found[1].file)
}
