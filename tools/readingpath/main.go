// Command readingpath counts the lines of the reading path that README.md names, and fails when it has become too long
// for an afternoon:
//
//	go run -C tools ./readingpath
//
// It counts every line of the four Go files and of the two schema files. Of db/queries/idempotency.sql it counts the
// statements that reserve, complete, lose, release and resolve a key. For each file it tells how many of the lines are
// code, and how many are comments or empty. README.md names what stands beside the path and is not counted.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The limits are lines of code and comments together.
const (
	maxGo  = 700
	maxSQL = 610
)

// onPath are the statements of idempotency.sql that the path has. An empty name is what stands before the first.
var onPath = map[string]bool{
	"": true, "ReserveKeys": true, "RetakeKey": true, "RenewKey": true, "CompleteKeys": true, "ResolveKeys": true,
	"ReleaseKey": true, "LoseKey": true, "ReleaseUnknownKey": true,
}

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "readingpath:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	totals := map[string]int{}
	for _, name := range []string{
		"internal/payments/execute.go", "internal/payments/judge.go", "internal/payments/reserve.go",
		"internal/payments/apply.go", "db/queries/idempotency.sql", "db/migrations/00112_idempotency_keys.sql",
		"db/migrations/00113_payments.sql",
	} {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		all, code := count(string(content), strings.HasPrefix(name, "db/queries"))
		totals[filepath.Ext(name)] += all
		fmt.Printf("%5d lines, %4d of code  %s\n", all, code, name)
	}
	fmt.Printf("%5d lines of Go, of %d at most\n%5d lines of SQL, of %d at most\n", totals[".go"], maxGo,
		totals[".sql"], maxSQL)
	if totals[".go"] > maxGo || totals[".sql"] > maxSQL {
		return fmt.Errorf("the path has become too long to be read in an afternoon")
	}
	return nil
}

// count counts the lines of a file, and those of them that are neither comments nor empty.
func count(content string, queries bool) (all, code int) {
	query := ""
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if name, found := strings.CutPrefix(line, "-- name: "); found {
			query, _, _ = strings.Cut(name, " ")
		}
		if queries && !onPath[query] {
			continue
		}
		all++
		if line != "" && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "--") {
			code++
		}
	}
	return all, code
}
