package blocks

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// prepared is a statement, with the names of its parameters in lower case, and their types.
type prepared struct {
	sql           string
	params, types []string
}

var (
	generated = regexp.MustCompile("(?s)const \\w+ = `-- name: (\\w+) :.*?\n(.*?)`\n")
	called    = regexp.MustCompile(`(?s)q\.db\.\w+\(ctx, (\w+)(.*?)\)\n`)
)

// generatedStatements are the statements that sqlc has generated, by package and name. The call in a generated method
// names the parameters in their order.
func generatedStatements(t *testing.T) map[string]*prepared {
	t.Helper()
	files, err := filepath.Glob("../../internal/*/internal/dbsqlc/*.sql.go")
	if err != nil || len(files) < 7 {
		t.Fatalf("find generated code: %v, %q", err, files)
	}
	all := map[string]*prepared{}
	for _, file := range files {
		source := read(t, file)
		owner := strings.Split(filepath.ToSlash(file), "/")[3] + "."
		for _, statement := range generated.FindAllStringSubmatch(source, -1) {
			all[owner+statement[1]] = &prepared{sql: statement[2]}
		}
		for _, call := range called.FindAllStringSubmatch(source, -1) {
			p := all[owner+strings.ToUpper(call[1][:1])+call[1][1:]]
			for param := range strings.SplitSeq(call[2], ",") {
				if param = strings.TrimSpace(param); param != "" {
					p.params = append(p.params, strings.ToLower(strings.TrimPrefix(param, "arg.")))
				}
			}
		}
	}
	return all
}

// argument is the value of a parameter, or an array of n values.
func (a asked) argument(param, kind string, n int) string {
	value := a.value(param)
	of, array := strings.CutSuffix(kind, "[]")
	if !array {
		return filled(value, a.is, 0)
	}
	var all []string
	for i := range n {
		all = append(all, filled(value, a.is, i))
	}
	return "ARRAY[" + strings.Join(all, ", ") + "]::" + of + "[]"
}

func (a asked) value(param string) string {
	for _, from := range []values{a.with, usual} {
		for _, name := range []string{param, singular(param)} {
			if value, ok := from[name]; ok {
				return value
			}
		}
	}
	return "NULL"
}

func singular(name string) string {
	for _, ending := range [][2]string{{"ies", "y"}, {"uses", "us"}, {"s", ""}} {
		if stem, ok := strings.CutSuffix(name, ending[0]); ok {
			return stem + ending[1]
		}
	}
	return name
}

// filled writes the i-th row of a kind into a template. The numbers have the same length, so the keys are sorted by
// bytes, as the callers sort them.
func filled(template string, is, i int) string {
	n := 100*(50+i) + is
	id := func(head string) string { return fmt.Sprintf("%s-0000-0000-0000-%012x", head, n) }
	return strings.NewReplacer("$n", strconv.Itoa(n), "$id", id("00000000"), "$refund", id("0000000f"),
		"$dead", id("0000000d")).Replace(template)
}
