package archtest

import "go/ast"

// sleepers may call time.Sleep: the mock PSP plays a slow one.
var sleepers = []string{"demo/mockpsp/..."}

// sleepBreaches finds each mention of time.Sleep outside of tests, calls and
// values alike. A sleep cannot be cancelled; a timer in a select can.
func sleepBreaches(sources []source) []breach {
	var breaches []breach
	for _, file := range sources {
		clock := importName(file, "time")
		if file.test || file.generated || clock == "" || matchesAny(sleepers, file.dir) {
			continue
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "Sleep" {
				return true
			}
			if base, ok := selector.X.(*ast.Ident); ok && base.Name == clock {
				breaches = append(breaches, breach{file.at(selector),
					"time.Sleep cannot be cancelled: wait for the event, or for a timer beside ctx.Done()"})
			}
			return true
		})
	}
	return breaches
}

// importName returns what the file calls the package, or "" if it does not
// import it. It knows only packages named after the end of their path.
func importName(file source, target string) string {
	for _, spec := range file.syntax.Imports {
		if spec.Path.Value != `"`+target+`"` {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return target
	}
	return ""
}
