package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// compiler checks the types of packages with planted bugs. It is much faster than a build for each patch: what a
// package imports is read as the build cache has it.
type compiler struct {
	root     string
	mu       sync.Mutex // an importer is for one goroutine
	files    *token.FileSet
	imports  types.Importer
	packages map[string]listed // by directory, relative to root
}

// listed is a package, as the go command tells it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

func newCompiler(t *testing.T, root string) *compiler {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles",
		"./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	c := &compiler{root: root, files: token.NewFileSet(), packages: map[string]listed{}}
	exports := map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if dir, err := filepath.Rel(root, p.Dir); err == nil {
			c.packages[dir] = p
		}
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	c.imports = importer.ForCompiler(c.files, "gc", open)
	return c
}

// check compiles each package that has a file of the overlay.
func (c *compiler) check(overlay map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	dirs := map[string]bool{}
	for name := range overlay {
		if strings.HasSuffix(name, ".go") {
			dirs[filepath.Dir(name)] = true
		}
	}
	var wrong []error
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		p, found := c.packages[dir]
		if !found {
			return fmt.Errorf("%s is no package", dir)
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			path := filepath.Join(c.root, dir, name)
			if copied, changed := overlay[filepath.Join(dir, name)]; changed {
				path = copied
			}
			file, err := parser.ParseFile(c.files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			parsed = append(parsed, file)
		}
		if _, err := (&types.Config{Importer: c.imports}).Check(p.ImportPath, c.files, parsed, nil); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}
