package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// afterThese are the words of a query that begin a condition.
const afterThese = " WHERE ON HAVING "

// rewriteQueries adds the mutants to the Go code of the queries: what runs is the text there.
func rewriteQueries(c *catalogue, where, path, source string, changes map[int]change) (string, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	ranges := map[string][2]int{}
	for _, declared := range parsed.Decls {
		name, text, is := queryOf(declared)
		if !is {
			continue
		}
		first := len(c.all) + 1
		title := strings.Fields(text)[2]
		for _, cond := range conditionsAfter(text, afterThese) {
			number := c.add(mutant{where: where, in: title, kind: cond.kind, text: text[cond.start:cond.end],
				line: where + " " + title}, text)
			changes[number] = change{start: cond.start, end: cond.end, text: cond.instead}
		}
		if last := len(c.all); last >= first {
			ranges[name] = [2]int{first, last}
		}
	}
	if len(ranges) == 0 {
		return source, nil
	}
	end := files.Position(parsed.Name.End()).Offset
	edits := []edit{{start: end, end: end, text: `; import mutant "` + switchImport + `"`}}
	for _, declared := range parsed.Decls {
		if f, is := declared.(*ast.FuncDecl); is {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				name, is := n.(*ast.Ident)
				if r, has := ranges[nameText(name)]; is && has {
					start, end := files.Position(name.Pos()).Offset, files.Position(name.End()).Offset
					call := fmt.Sprintf("mutant.SQL(%d, %d, ", r[0], r[1])
					edits = append(edits, edit{start: start, end: start, text: call},
						edit{start: end, end: end, text: ")", closing: true})
				}
				return true
			})
		}
	}
	return applyEdits(source, edits), nil
}

func nameText(name *ast.Ident) string {
	if name == nil {
		return ""
	}
	return name.Name
}

// queryOf is the name and the text of a query's constant.
func queryOf(d ast.Decl) (name, text string, is bool) {
	g, isGeneral := d.(*ast.GenDecl)
	if !isGeneral || g.Tok != token.CONST || len(g.Specs) != 1 {
		return "", "", false
	}
	spec, isValue := g.Specs[0].(*ast.ValueSpec)
	if !isValue || len(spec.Values) != 1 {
		return "", "", false
	}
	literal, isLiteral := spec.Values[0].(*ast.BasicLit)
	if !isLiteral {
		return "", "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return spec.Names[0].Name, text, err == nil && strings.HasPrefix(text, "-- name: ")
}
