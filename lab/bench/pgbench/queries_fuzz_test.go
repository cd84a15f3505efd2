package pgbench

import (
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// A query that sqlc has written is found with its text, whatever stands in it, and by nobody else's name.
func FuzzGenerated(f *testing.F) {
	f.Add("ReserveKeys", "INSERT INTO keys (a) VALUES ($1)\n  RETURNING a", "TenantID")
	f.Add("Plain", "-- a comment\nSELECT '`' || '\\' -- not one\n\n", "")
	f.Fuzz(func(t *testing.T, name, sql, parameter string) {
		if !token.IsIdentifier(name) || heading.FindString("-- name: "+name+" :") == "" || parameter != "" &&
			(!token.IsIdentifier(parameter) || !token.IsExported(parameter)) {
			return
		}
		text := "package dbsqlc\n\nconst q = " + strconv.Quote("-- name: "+name+" :one\n"+sql) +
			"\n\nconst other = `SELECT 1`\n"
		if parameter != "" {
			text += "\ntype " + name + "Params struct {\n\t" + parameter + " string\n}\n"
		}
		file, err := parser.ParseFile(token.NewFileSet(), "q.sql.go", text, 0)
		if err != nil {
			return // of a name or a parameter that Go does not take
		}
		queries := map[string]Query{}
		if err := collect(file, "keys", queries); err != nil {
			t.Fatal(err)
		}
		q, found := queries["keys."+name]
		if !found || len(queries) != 1 || len(q.Parameters) != min(len(parameter), 1) {
			t.Fatalf("%d queries are found, %+v", len(queries), q)
		}
		if again := withoutComments(q.SQL); again != q.SQL || strings.Contains(q.SQL, "-- name: "+name) &&
			!strings.Contains(sql, "-- name") {
			t.Fatalf("%q, and once more %q", q.SQL, again)
		}
		for line := range strings.Lines(sql) {
			if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "--") &&
				!strings.Contains(q.SQL, trimmed) {
				t.Fatalf("%q is lost from %q", trimmed, q.SQL)
			}
		}
	})
}

// A report without all of its figures, or with failures, is no result.
func FuzzReport(f *testing.F) {
	const report = "number of transactions actually processed: 4210\nnumber of failed transactions: 0 (0.000%)\n" +
		"latency average = 0.474 ms\ntps = 2105.125 (without initial connection time)\n"
	f.Add(report)
	f.Add(strings.Replace(report, "failed transactions: 0", "failed transactions: 3", 1))
	f.Add(strings.Replace(report, "2105.125", "1.2.3", 1))
	f.Fuzz(func(t *testing.T, report string) {
		r, err := read(report)
		if err != nil {
			return
		}
		for _, words := range []string{"tps = ", "actually processed: ", "failed transactions: 0",
			"latency average = "} {
			if !strings.Contains(report, words) {
				t.Fatalf("without %q: %+v", words, r)
			}
		}
		if r.PerSecond < 0 || r.LatencyMS < 0 {
			t.Fatalf("%+v", r)
		}
	})
}
