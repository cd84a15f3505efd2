package postgres_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// direct is a query of a Reader, handed is one whose queries another function runs, kept is one that has a name.
	direct = regexp.MustCompile(`dbsqlc\.New\([\w.]+\.Reader\(\)\)\.(\w+)\(`)
	handed = regexp.MustCompile(`\((?:ctx, )?dbsqlc\.New\([\w.]+\.Reader\(\)\)[,)]`)
	kept   = regexp.MustCompile(`(\w+) := dbsqlc\.New\([\w.]+\.Reader\(\)\)\n`)

	writes  = regexp.MustCompile(`(?i)\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|nextval|set_config|pg_logical_emit_message)\b`)
	comment = regexp.MustCompile(`(?m)^--.*$`)
)

// handedOn are the queries of those functions that are handed a Reader.
var handedOn = []string{
	"payments.BookedMovements", "operator.UnprocessedWebhooks", "operator.OverdueLookups", "operator.ListWatermarks",
	"operator.CountJobs",
}

// A write by a Reader whose acknowledgement is lost would be called "nothing was written".
func TestNoReaderWrites(t *testing.T) {
	t.Parallel()
	all := statements(t)
	names, handedTo := append([]string{}, handedOn...), 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			d.Name() == "reader.go" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		source, owner := string(raw), strings.Split(filepath.ToSlash(path), "/")[1]
		for _, m := range direct.FindAllStringSubmatch(source, -1) {
			names = append(names, owner+"."+m[1])
		}
		handedTo += len(handed.FindAllString(source, -1))
		for _, k := range kept.FindAllStringSubmatch(source, -1) {
			for _, m := range regexp.MustCompile(`\b`+k[1]+`\.([A-Z]\w+)\(`).FindAllStringSubmatch(source, -1) {
				if _, ok := all[owner+"."+m[1]]; ok {
					names = append(names, owner+"."+m[1])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 30 || handedTo != 3 {
		t.Errorf("%d queries, and %d Readers that are handed on: is the search still right, and handedOn?", len(names),
			handedTo)
	}
	for _, name := range names {
		sql, ok := all[name]
		if !ok || writes.MatchString(comment.ReplaceAllString(sql, "")) {
			t.Errorf("%s is run by a Reader, and found: %t, %s", name, ok, sql)
		}
	}
}
