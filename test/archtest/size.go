package archtest

import (
	"fmt"
	"go/ast"
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
