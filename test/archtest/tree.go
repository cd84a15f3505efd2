package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const modulePath = "payonce"

// source is one parsed Go file. Paths are relative to the module's root, with
// forward slashes.
type source struct {
	path      string
	dir       string // the package, as the tables in rings.go and imports.go name it
	test      bool
	generated bool
	lines     int
	syntax    *ast.File
	positions *token.FileSet
}

// breach is one place where the tree breaks a rule, and how to repair it.
type breach struct {
	where string
	why   string
}

func (b breach) String() string {
	return b.where + ": " + b.why
}

// parseTree reads every Go file below root, also those of the nested modules.
func parseTree(root fs.FS) ([]source, error) {
	var sources []source
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && skipped(entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parseSource(root, name)
		sources = append(sources, parsed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("parse tree: %w", err)
	}
	return sources, nil
}

// skipped says which directories hold no source of ours; the go command
// ignores the same ones, except for those that other tools fill.
func skipped(dir string) bool {
	switch dir {
	case "bin", "mine", "node_modules", "testdata", "vendor":
		return true
	}
	return strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_")
}

func parseSource(root fs.FS, name string) (source, error) {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return source{}, err
	}
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, name, content, parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	lines := bytes.Count(content, []byte("\n"))
	if !bytes.HasSuffix(content, []byte("\n")) {
		lines++
	}
	return source{
		path:      name,
		dir:       path.Dir(name),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(syntax),
		lines:     lines,
		syntax:    syntax,
		positions: positions,
	}, nil
}

func (s source) imports() []string {
	imports := make([]string, 0, len(s.syntax.Imports))
	for _, spec := range s.syntax.Imports {
		// The parser has accepted the literal, so it unquotes.
		if target, err := strconv.Unquote(spec.Path.Value); err == nil {
			imports = append(imports, target)
		}
	}
	return imports
}

func (s source) line(node ast.Node) int {
	return s.positions.Position(node.Pos()).Line
}

func (s source) at(node ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.line(node))
}
