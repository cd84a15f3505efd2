package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// packages whose conditions are taken away, by their directories.
func packages() []string {
	return []string{
		"internal/payment", "internal/judge", "internal/payments", "internal/idempotency", "internal/operator",
		"internal/gateway", "internal/gateway/native", "internal/gateway/stripe", "internal/gateway/wire",
		"internal/webhooks", "internal/deadletters",
		"internal/tenants", "internal/statement", "internal/reconcile", "internal/watch",
	}
}

// rewriter adds the mutants to one Go file. It only inserts text within lines, so positions in stack traces stay.
type rewriter struct {
	c       *catalogue
	where   string
	name    string // of the file
	source  string
	files   *token.FileSet
	in      string   // the function
	whole   ast.Node // the declaration
	handled map[ast.Node]bool
	edits   []edit // pairs: what stands before a node, and what stands after it
	skipped []string
}

// rewriteGo returns the file with all its mutants, and the places that it cannot change.
func rewriteGo(c *catalogue, where, path, source string) (changed string, skipped []string, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	r := &rewriter{c: c, where: where, name: filepath.Base(path), source: source, files: files,
		handled: map[ast.Node]bool{}}
	for _, declared := range parsed.Decls {
		if g, is := declared.(*ast.GenDecl); is && g.Tok != token.VAR {
			continue // a constant is no place for a call
		}
		r.in, r.whole = nameOf(declared), declared
		ast.Inspect(declared, r.visit)
	}
	if len(r.edits) == 0 {
		return source, r.skipped, nil
	}
	end := r.offset(parsed.Name.End())
	r.edits = append(r.edits, edit{start: end, end: end, text: `; import mutant "` + switchImport + `"`})
	return applyEdits(source, r.edits), r.skipped, nil
}

func nameOf(d ast.Decl) string {
	f, is := d.(*ast.FuncDecl)
	if !is {
		return "variables"
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && receiver == "" {
			receiver = name.Name + "."
		}
		return receiver == ""
	})
	return receiver + f.Name.Name
}

func (r *rewriter) offset(at token.Pos) int { return r.files.Position(at).Offset }

func (r *rewriter) text(n ast.Node) string { return r.source[r.offset(n.Pos()):r.offset(n.End())] }

// add registers what is taken away at a node.
func (r *rewriter) add(k kind, at ast.Node, text string) int {
	return r.c.add(mutant{where: r.where, in: r.in, kind: k, text: text,
		line: fmt.Sprintf("%s/%s:%d", r.where, r.name, r.files.Position(at.Pos()).Line)}, r.text(r.whole))
}

// wrap puts text around a node. Nodes are wrapped from the outside to the inside.
func (r *rewriter) wrap(n ast.Node, before, after string) {
	start, end := r.offset(n.Pos()), r.offset(n.End())
	r.edits = append(r.edits, edit{start: start, end: start, text: before},
		edit{start: end, end: end, text: after, closing: true})
}

// force has a condition be true or false while a mutant is active. 0 is no mutant.
func (r *rewriter) force(n ast.Expr, isTrue, isFalse int) {
	r.wrap(n, fmt.Sprintf("mutant.If(%d, %d, ", isTrue, isFalse), ")")
}

func (r *rewriter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		r.ifStatement(n)
	case *ast.ForStmt:
		if n.Cond != nil {
			r.force(n.Cond, 0, r.add(never, n.Cond, "for "+r.text(n.Cond)))
			r.operands(n.Cond, token.ILLEGAL)
		}
	case *ast.SwitchStmt:
		r.switchStatement(n)
	case *ast.TypeSwitchStmt:
		r.typeSwitch(n)
	case *ast.SelectStmt:
		r.selectStatement(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !r.handled[n] {
			r.wrap(n, fmt.Sprintf("(mutant.On(%d) != (", r.add(comparison, n, r.text(n))), "))")
			r.operands(n, token.ILLEGAL)
		}
	case *ast.BinaryExpr:
		r.value(n)
	}
	return true
}

// ifStatement takes the whole condition away, and then each of its operands.
func (r *rewriter) ifStatement(n *ast.IfStmt) {
	text := "if " + r.text(n.Cond)
	if isErrorCheck(n.Cond) {
		r.force(n.Cond, 0, r.add(errorCheck, n.Cond, text+" "+r.text(n.Body)))
		r.handled[n.Cond] = true
		return
	}
	k := never
	if last := len(n.Body.List) - 1; last >= 0 && n.Else == nil && leaves(n.Body.List[last]) {
		k = earlyReturn
	}
	r.force(n.Cond, r.add(always, n.Cond, text), r.add(k, n.Cond, text))
	r.operands(n.Cond, token.ILLEGAL)
}

// isErrorCheck tells whether a condition is `err != nil`, whatever the error's name.
func isErrorCheck(cond ast.Expr) bool {
	b, is := cond.(*ast.BinaryExpr)
	if !is || b.Op != token.NEQ {
		return false
	}
	x, isName := b.X.(*ast.Ident)
	y, isNil := b.Y.(*ast.Ident)
	return isName && isNil && y.Name == "nil" && strings.HasSuffix(strings.ToLower(x.Name), "err")
}

func leaves(s ast.Stmt) bool {
	switch s.(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

// value is a condition that is no statement's: a result, an argument, an assigned value.
func (r *rewriter) value(n *ast.BinaryExpr) {
	if r.handled[n] || !logical(n.Op) && !comparing(n.Op) {
		return
	}
	if comparing(n.Op) {
		r.wrap(n, fmt.Sprintf("(mutant.On(%d) != (", r.add(comparison, n, r.text(n))), "))")
	}
	r.operands(n, token.ILLEGAL)
}

// operands takes away each operand of && and ||, and moves each boundary by one. parent is the operator whose operand e
// is.
func (r *rewriter) operands(e ast.Expr, parent token.Token) {
	r.handled[e] = true
	switch n := e.(type) {
	case *ast.ParenExpr:
		r.operands(n.X, parent)
		return
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			r.operand(e, parent)
			r.operands(n.X, token.ILLEGAL)
			return
		}
	case *ast.BinaryExpr:
		if logical(n.Op) {
			if n.Op != parent {
				r.operand(e, parent)
			}
			r.operands(n.X, n.Op)
			r.operands(n.Y, n.Op)
			return
		}
		r.operand(e, parent)
		if other, is := neighbours()[n.Op]; is {
			number := r.add(boundary, n, r.text(n))
			moved := fmt.Sprintf("%s %s %s", r.text(n.X), other, r.text(n.Y))
			if calls(n) {
				r.wrap(n, fmt.Sprintf("(mutant.On(%d) && (%s) || !mutant.On(%d) && (", number, moved, number), "))")
			} else {
				r.wrap(n, fmt.Sprintf("mutant.Either(%d, %s, ", number, moved), ")")
			}
		}
		return
	}
	r.operand(e, parent)
}

// calls tells whether an expression calls a function, which may do something else each time.
func calls(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is {
			name, isName := call.Fun.(*ast.Ident)
			found = found || !isName || name.Name != "len"
		}
		return true
	})
	return found
}

func (r *rewriter) operand(e ast.Expr, parent token.Token) {
	switch parent {
	case token.LAND:
		r.force(e, r.add(conjunct, e, r.text(e)), 0)
	case token.LOR:
		r.force(e, 0, r.add(disjunct, e, r.text(e)))
	}
}

func logical(op token.Token) bool { return op == token.LAND || op == token.LOR }

func comparing(op token.Token) bool {
	return op == token.EQL || op == token.NEQ || neighbours()[op] != ""
}

// neighbours are the comparisons that differ for equal values alone.
func neighbours() map[token.Token]string {
	return map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
}

// applyEdits applies edits. Of insertions at one place, what begins an outer node comes first, and what ends it last.
func applyEdits(source string, edits []edit) string {
	type ordered struct {
		edit
		order int
	}
	all := make([]ordered, len(edits))
	for i, e := range edits {
		all[i] = ordered{e, i}
	}
	slices.SortFunc(all, func(a, b ordered) int {
		switch {
		case a.start != b.start:
			return a.start - b.start
		case a.closing != b.closing && a.closing:
			return -1
		case a.closing != b.closing:
			return 1
		case a.closing:
			return b.order - a.order
		}
		return a.order - b.order
	})
	var out strings.Builder
	at := 0
	for _, e := range all {
		out.WriteString(source[at:e.start])
		out.WriteString(e.text)
		at = e.end
	}
	return out.String() + source[at:]
}
