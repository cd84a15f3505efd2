package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// token of SQL: a word, a string, a sign. Comments and white space are none.
type sqlToken struct {
	start, end int
	text       string // upper case, for words
}

var sqlPattern = regexp.MustCompile(`--[^\n]*|/\*(?s:.*?)\*/|\s+|'(?:[^']|'')*'|"(?:[^"]|"")*"|` +
	`[A-Za-z_][A-Za-z0-9_]*|\$\d+|\d[\d.]*|::|:=|<=|>=|<>|!=|\|\||.`)

func tokenize(text string) []sqlToken {
	var tokens []sqlToken
	for _, at := range sqlPattern.FindAllStringIndex(text, -1) {
		word := text[at[0]:at[1]]
		if strings.TrimSpace(word) == "" || strings.HasPrefix(word, "--") || strings.HasPrefix(word, "/*") {
			continue
		}
		if word[0] != '\'' && word[0] != '"' {
			word = strings.ToUpper(word)
		}
		tokens = append(tokens, sqlToken{at[0], at[1], word})
	}
	return tokens
}

// terminators end a condition of WHERE, ON or HAVING.
const terminators = " WHERE GROUP ORDER LIMIT OFFSET RETURNING UNION EXCEPT INTERSECT FOR FETCH WINDOW HAVING JOIN " +
	"LEFT RIGHT INNER FULL CROSS ON DO THEN LOOP ; , "

// condition of an SQL text: an operand of AND or OR, or a whole condition.
type condition struct {
	start, end int
	kind       kind
	instead    string
}

// conditionsAfter finds the operands of each condition that follows one of the words.
func conditionsAfter(text string, words string) []condition {
	tokens := tokenize(text)
	var found []condition
	for i, t := range tokens {
		if !strings.Contains(words, " "+t.text+" ") || i+1 < len(tokens) && tokens[i+1].text == "CONFLICT" ||
			choosesIndex(tokens[:i]) {
			continue
		}
		end := i + 1
		for depth := 0; end < len(tokens); end++ {
			word := tokens[end].text
			if depth == 0 && (word == ")" || strings.Contains(terminators, " "+word+" ") && !isCall(tokens, end)) {
				break
			}
			depth += nesting(word)
		}
		cond := tokens[i+1 : end]
		if enclosed(cond) && cond[1].text != "SELECT" {
			cond = cond[1 : len(cond)-1]
		}
		found = append(found, operandsOf(text, cond, conjunct)...)
	}
	return found
}

// choosesIndex tells whether what comes after these tokens is the WHERE of ON CONFLICT (a, b) WHERE c. It only chooses
// the index, and without it there is none.
func choosesIndex(before []sqlToken) bool {
	i := len(before) - 1
	if i < 0 || before[i].text != ")" {
		return false
	}
	for ; i > 0 && before[i].text != "("; i-- {
	}
	return i > 0 && before[i-1].text == "CONFLICT"
}

// isCall tells whether a word is a function, as left('…', 3).
func isCall(tokens []sqlToken, i int) bool {
	return (tokens[i].text == "LEFT" || tokens[i].text == "RIGHT") && i+1 < len(tokens) && tokens[i+1].text == "("
}

func nesting(word string) int {
	switch word {
	case "(", "[", "CASE":
		return 1
	case ")", "]", "END":
		return -1
	}
	return 0
}

// operandsOf returns the operands of OR and AND in a condition, from the outside to the inside. as is what the whole
// condition is to the one around it, or nothing if it has been told already.
func operandsOf(text string, tokens []sqlToken, as kind) []condition {
	if len(tokens) == 0 || len(tokens) == 1 && tokens[0].text == "TRUE" {
		return nil
	}
	var found []condition
	ors, ands := split(tokens, "OR"), split(tokens, "AND")
	if as == disjunct || as == conjunct && (len(ors) > 1 || len(ands) == 1) {
		start, end := tokens[0].start, tokens[len(tokens)-1].end
		instead := "((" + text[start:end] + ") OR TRUE)"
		if as == disjunct {
			instead = "((" + text[start:end] + ") AND FALSE)"
		}
		found = append(found, condition{start, end, as, instead})
	}
	switch {
	case len(ors) > 1:
		for _, part := range ors {
			found = append(found, operandsOf(text, part, disjunct)...)
		}
	case len(ands) > 1:
		for _, part := range ands {
			found = append(found, operandsOf(text, part, conjunct)...)
		}
	default:
		if tokens[0].text == "NOT" {
			tokens = tokens[1:]
		}
		if enclosed(tokens) && tokens[1].text != "SELECT" && tokens[1].text != "WITH" {
			tokens = tokens[1 : len(tokens)-1]
			if len(split(tokens, "OR")) > 1 || len(split(tokens, "AND")) > 1 {
				found = append(found, operandsOf(text, tokens, "")...)
			}
		}
	}
	return found
}

// enclosed tells whether one pair of brackets is around all tokens.
func enclosed(tokens []sqlToken) bool {
	if len(tokens) < 3 || tokens[0].text != "(" {
		return false
	}
	depth := 0
	for i, t := range tokens {
		depth += nesting(t.text)
		if depth == 0 {
			return i == len(tokens)-1
		}
	}
	return false
}

// split cuts at a word that is not nested. The AND of BETWEEN is none.
func split(tokens []sqlToken, word string) [][]sqlToken {
	var parts [][]sqlToken
	depth, from, between := 0, 0, false
	for i, t := range tokens {
		depth += nesting(t.text)
		switch {
		case depth > 0:
		case t.text == "BETWEEN":
			between = true
		case t.text == "AND" && between:
			between = false
		case t.text == word:
			parts = append(parts, tokens[from:i])
			from = i + 1
		}
	}
	return append(parts, tokens[from:])
}

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
