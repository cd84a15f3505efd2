package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
)

// Half of each is what we aim at.
const (
	maxFileLines     = 300
	maxFunctionLines = 70
)

// fileLengthBreaches leaves tests alone: a table of cases reads well at any
// length.
func fileLengthBreaches(sources []source) []breach {
	var breaches []breach
	for _, file := range sources {
		if !file.test && !file.generated && file.lines > maxFileLines {
			breaches = append(breaches, breach{file.path,
				fmt.Sprintf("has %d lines, of %d at most: split it by the steps it takes", file.lines, maxFileLines)})
		}
	}
	return breaches
}

// manyRows make a composite literal a table.
const manyRows = 8

// functionLengthBreaches counts from `func` to the closing brace and holds
// for tests as well: a claim that takes longer is several claims. The rows of
// a table of cases are left out.
func functionLengthBreaches(sources []source) []breach {
	var breaches []breach
	for _, file := range sources {
		if file.generated {
			continue
		}
		for _, declaration := range file.syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := file.positions.Position(function.End()).Line - file.line(function.Name) + 1
			if file.test {
				lines -= tableLines(file, function)
			}
			if lines > maxFunctionLines {
				breaches = append(breaches, breach{file.at(function.Name),
					fmt.Sprintf("func %s has %d lines, of %d at most", function.Name.Name, lines, maxFunctionLines)})
			}
		}
	}
	return breaches
}

// tableLines counts the lines between the braces of a function's tables.
func tableLines(file source, function *ast.FuncDecl) (lines int) {
	ast.Inspect(function, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok || len(table.Elts) < manyRows {
			return true
		}
		lines += max(0, file.positions.Position(table.Rbrace).Line-file.positions.Position(table.Lbrace).Line-1)
		return false
	})
	return lines
}

const (
	maxPackageFiles = 25
	maxTypeMethods  = 45
)

// tooManyMethods are the types that have more methods, and why.
var tooManyMethods = map[string]string{
	"demo/mockpsp Server":        "it is to be divided with its package",
	"demo/mockpsp/stripe Server": "one or two methods for each endpoint of Stripe's",
	"lab/chaos/crowd Crowd":      "one method for each thing that somebody does",
	"lab/invariants books":       "one method for each question to the rows",
	"lab/matrix stage":           "the steps of the scenes, which are read as sentences",
}

// packageSizeBreaches counts the files of each package, and the methods of each type. Neither tests nor generated files
// count. An exception that is not needed any more is a breach, too.
func packageSizeBreaches(sources []source) []breach {
	files, methods := map[string]int{}, map[string]int{}
	for _, file := range sources {
		if file.test || file.generated {
			continue
		}
		dir := path.Dir(file.path)
		files[dir]++
		for _, declaration := range file.syntax.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[dir+" "+receiverName(f)]++
			}
		}
	}
	return append(tooMany(files, maxPackageFiles, nil, "files: divide the package"),
		tooMany(methods, maxTypeMethods, tooManyMethods, "methods: divide the type")...)
}

func tooMany(counts map[string]int, most int, excepted map[string]string, what string) []breach {
	var breaches []breach
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		switch n := counts[name]; {
		case n > most && excepted[name] == "":
			breaches = append(breaches, breach{name, fmt.Sprintf("has %d of %d %s", n, most, what)})
		case n <= most && excepted[name] != "":
			breaches = append(breaches, breach{name, "needs no exception any more: remove it"})
		}
	}
	return breaches
}

// receiverName is the type of a method.
func receiverName(f *ast.FuncDecl) (name string) {
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
