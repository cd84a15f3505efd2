// Command structure counts what a reader of Payonce has to hold in mind, so that two versions can be compared:
//
//	go run -C tools ./structure          this tree
//	go run -C tools ./structure OTHER    a checkout of another version
//
// It reads syntax, not types: a call is found by its name, and a name that two files declare counts for neither. What
// it counts:
//
//   - of package payments: files, types, functions, methods of Service, calls between its files, and those of them that
//     run back up, from a file that is read later to one that is read before, in the order of internal/payments/doc.go;
//   - deciders: functions of the product that choose which dead letter evidence opens, or which step an operator's
//     decision takes;
//   - writers: functions that send, or queue, the statement by which a key leaves a status;
//   - handlers of a lost acknowledgement: functions that ask what has become of a commit;
//   - lines of Go that are no tests, and not generated, by street.
package main

import (
	"bufio"
	"bytes"
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

func main() {
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, "structure:", err)
		os.Exit(1)
	}
}

// file is one that is no test, and not generated.
type file struct {
	path   string // from the root
	lines  int
	syntax *ast.File
}

func run(root string) error {
	files, err := read(root)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	payments := in(files, "internal/payments")
	row := func(what string, n int) { fmt.Fprintf(w, "%-52s %6d\n", what, n) }
	row("payments: files", len(payments))
	row("payments: types", count(payments, func(d ast.Decl) int {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			return len(g.Specs)
		}
		return 0
	}))
	row("payments: functions and methods", count(payments, isFunc(func(*ast.FuncDecl) bool { return true })))
	row("payments: methods of Service", count(payments,
		isFunc(func(f *ast.FuncDecl) bool { return receiver(f) == "Service" })))
	between, up := calls(payments, readingOrder(root, payments))
	row("payments: calls between files", between)
	row("payments: of these back up the reading order", up)
	product := slices.Concat(payments, in(files, "internal/judge"), in(files, "internal/operator"),
		in(files, "internal/app"), in(files, "internal/reconcile"))
	lettersOfEvidence := regexp.MustCompile(
		`deadletters\.(PSPContradicts|ContradictsCompleted|DuplicateMovement|LookupsExhausted|PSPMemoryOver|` +
			`UnknownMovement|OtherAccount|LateAfterExpiry|RefundExceeds|MissingAtPSP)\b|refuse\(((payments|judge)\.)?(ContradictsPSP|NoFreshProof|GraceOpen|NeedsDecision)`)
	deciders := matching(root, product, lettersOfEvidence)
	listed(w, "deciders, by file", deciders)
	listed(w, "writers, by file", matching(root, product,
		regexp.MustCompile(`\b(keys|k)\.(Complete|Resolve|Release\w*|Lose|Postpone|expireLease)\(`)))
	all := slices.Concat(in(files, "internal"), in(files, "cmd"))
	listed(w, "handlers of a lost acknowledgement, by file",
		matching(root, all, regexp.MustCompile(`CommitAmbiguous\(\)|PauseBeforeRecall\(|postgres\.Recall\(`)))
	for _, street := range []string{"cmd", "internal", "demo", "test", "lab", "course", "deploy", "tools"} {
		lines := 0
		for _, f := range in(files, street) {
			lines += f.lines
		}
		row("lines of Go: "+street+"/", lines)
	}
	return nil
}

func read(root string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root && d.Name() != ".." ||
			d.Name() == "node_modules" || d.Name() == "bin" || d.Name() == "dbsqlc"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), path, raw, 0)
		if err != nil {
			return err
		}
		short, err := filepath.Rel(root, path)
		files = append(files, file{filepath.ToSlash(short), bytes.Count(raw, []byte("\n")), syntax})
		return err
	})
	return files, err
}

// in are the files of a directory, with those beneath it; of a package of the product, without.
func in(files []file, dir string) []file {
	return slices.DeleteFunc(slices.Clone(files), func(f file) bool {
		if strings.Contains(dir, "/") {
			return filepath.ToSlash(filepath.Dir(f.path)) != dir
		}
		return !strings.HasPrefix(f.path, dir+"/")
	})
}

func count(files []file, of func(ast.Decl) int) (n int) {
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			n += of(d)
		}
	}
	return n
}

func isFunc(fits func(*ast.FuncDecl) bool) func(ast.Decl) int {
	return func(d ast.Decl) int {
		if f, ok := d.(*ast.FuncDecl); ok && fits(f) {
			return 1
		}
		return 0
	}
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// readingOrder is the place of each file in the package's own prose. Files that it does not name are read last.
func readingOrder(root string, files []file) map[string]int {
	order := map[string]int{}
	prose, _ := os.ReadFile(filepath.Join(root, "internal/payments/doc.go"))
	for _, name := range regexp.MustCompile(`[a-z]+\.go`).FindAllString(string(prose), -1) {
		if _, known := order[name]; !known {
			order[name] = len(order)
		}
	}
	for _, f := range files {
		if _, known := order[filepath.Base(f.path)]; !known {
			order[filepath.Base(f.path)] = 1000
		}
	}
	return order
}

// calls counts the pairs of a function and a function of another file that it calls, and those of them that run back
// up.
func calls(files []file, order map[string]int) (between, up int) {
	home := map[string]string{}
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if _, twice := home[fn.Name.Name]; twice {
					home[fn.Name.Name] = "" // of several types: nobody can tell
					continue
				}
				home[fn.Name.Name] = filepath.Base(f.path)
			}
		}
	}
	for _, f := range files {
		here := filepath.Base(f.path)
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			seen := map[string]bool{}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name := ""
				switch to := call.Fun.(type) {
				case *ast.Ident:
					name = to.Name
				case *ast.SelectorExpr:
					name = to.Sel.Name
				}
				there := home[name]
				if there == "" || there == here || seen[name] {
					return true
				}
				seen[name] = true
				between++
				if order[there] < order[here] {
					up++
				}
				return true
			})
		}
	}
	return between, up
}

// matching are the functions whose source fits, by file.
func matching(root string, files []file, pattern *regexp.Regexp) map[string]int {
	found := map[string]int{}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(root, f.path))
		if err != nil {
			continue
		}
		base := f.syntax.FileStart
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && pattern.Match(raw[fn.Pos()-base:fn.End()-base]) {
				found[f.path]++
			}
		}
	}
	return found
}

func listed(w *bufio.Writer, what string, found map[string]int) {
	total := 0
	var names []string
	for name, n := range found {
		total += n
		names = append(names, fmt.Sprintf("    %-48s %6d", name, n))
	}
	slices.Sort(names)
	fmt.Fprintf(w, "%-52s %6d\n%s\n", what, total, strings.Join(names, "\n"))
}
