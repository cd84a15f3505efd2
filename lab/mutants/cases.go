package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// switchStatement takes away each value of each case. A switch over a value becomes one over conditions, because a
// condition can be made false and a value cannot be made to fit nothing.
func (r *rewriter) switchStatement(n *ast.SwitchStmt) {
	if n.Tag == nil {
		for _, clause := range clausesThatDo(n.Body) {
			for _, e := range clause.List {
				r.force(e, 0, r.add(caseGone, e, "case "+r.text(e)))
				r.operands(e, token.ILLEGAL)
			}
		}
		return
	}
	tag, repeatable := r.text(n.Tag), simple(n.Tag)
	if !repeatable && n.Init != nil {
		r.skipped = append(r.skipped, fmt.Sprintf("%s/%s: switch %s", r.where, r.name, oneLine(tag)))
		return
	}
	start, end := r.offset(n.Tag.Pos()), r.offset(n.Tag.End())
	if repeatable {
		r.edits = append(r.edits, edit{start: start, end: end})
	} else {
		r.edits = append(r.edits, edit{start: start, end: start, text: "mutantTag := "},
			edit{start: end, end: end, text: ";"})
		tag = "mutantTag"
	}
	doing := clausesThatDo(n.Body)
	for _, statement := range n.Body.List {
		clause := statement.(*ast.CaseClause) //nolint:forcetypeassert // a switch has no other statements
		for _, e := range clause.List {
			if !slices.Contains(doing, clause) {
				r.wrap(e, tag+" == (", ")")
				continue
			}
			r.wrap(e, fmt.Sprintf("mutant.If(0, %d, %s == (", r.add(caseGone, e, "case "+r.text(e)), tag), "))")
		}
	}
}

// clausesThatDo are the cases of a switch. A case without a body, in a switch without a default, names a value for the
// reader alone: without it, nothing else happens.
func clausesThatDo(body *ast.BlockStmt) []*ast.CaseClause {
	var all, doing []*ast.CaseClause
	hasDefault := false
	for _, statement := range body.List {
		clause := statement.(*ast.CaseClause) //nolint:forcetypeassert // a switch has no other statements
		hasDefault = hasDefault || clause.List == nil
		all = append(all, clause)
		if len(clause.Body) > 0 {
			doing = append(doing, clause)
		}
	}
	if hasDefault {
		return all
	}
	return doing
}

// simple tells whether an expression is a name, or a field of one.
func simple(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		return simple(e.X)
	}
	return false
}

// typeSwitch takes away each type of each case: a value of this type is hidden, and the switch sees nil.
func (r *rewriter) typeSwitch(n *ast.TypeSwitchStmt) {
	var asserted *ast.TypeAssertExpr
	switch s := n.Assign.(type) {
	case *ast.ExprStmt:
		asserted, _ = s.X.(*ast.TypeAssertExpr)
	case *ast.AssignStmt:
		asserted, _ = s.Rhs[0].(*ast.TypeAssertExpr)
	}
	var types []string
	for _, clause := range clausesThatDo(n.Body) {
		for _, e := range clause.List {
			if name, is := e.(*ast.Ident); is && name.Name == "nil" {
				continue
			}
			number := r.add(caseGone, e, "case "+r.text(e))
			const one = ", mutant.Type{Number: %d, Is: func(v any) bool { _, is := v.(%s); return is }}"
			types = append(types, fmt.Sprintf(one, number, r.text(e)))
		}
	}
	if asserted != nil && len(types) > 0 {
		r.wrap(asserted.X, "mutant.Hide(", strings.Join(types, "")+")")
	}
}

// selectStatement takes away each case: nothing ever comes out of its channel, or goes in.
func (r *rewriter) selectStatement(n *ast.SelectStmt) {
	for _, clause := range n.Body.List {
		var received ast.Expr
		switch s := clause.(*ast.CommClause).Comm.(type) { //nolint:forcetypeassert // likewise
		case *ast.ExprStmt:
			received = s.X
		case *ast.AssignStmt:
			received = s.Rhs[0]
		case *ast.SendStmt:
			r.wrap(s.Chan, fmt.Sprintf("mutant.Into(%d, ", r.add(caseGone, s, "case "+r.text(s))), ")")
		}
		if from, is := received.(*ast.UnaryExpr); is && from.Op == token.ARROW {
			r.wrap(from.X, fmt.Sprintf("mutant.From(%d, ", r.add(caseGone, from, "case "+r.text(from))), ")")
		}
	}
}
