package postgres_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// Each name in the lists is a statement.
func TestListsNameStatementsOfTheProgram(t *testing.T) {
	t.Parallel()
	all := statements(t)
	for _, list := range [][]string{byNeither, byAPI, byReconciler, ofRiver, utilities} {
		for _, name := range list {
			if _, ok := all[name]; !ok {
				t.Errorf("%s is no statement of the program's any more", name)
			}
		}
	}
}

func TestNoRightIsWithoutItsStatement(t *testing.T) {
	t.Parallel()
	for _, role := range []postgres.Role{postgres.API, postgres.Reconciler} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for _, r := range b.rights(t, role) {
				// The sequence is asked when a job is inserted, and EXPLAIN inserts none. To rebuild its indexes is no
				// statement of River's list.
				if r.Table != "river_job_id_seq" && r.Privilege != "MAINTAIN" && !b.needs(t, role, r) {
					t.Errorf("%s has %s, and runs no statement that needs it", role, r)
				}
			}
		})
	}
}

// needs tells whether a statement that a role runs fails without a right.
func (b *bench) needs(t *testing.T, role postgres.Role, r right) bool {
	t.Helper()
	nested, err := b.tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nested.Rollback(context.Background()) }()
	revoke := "REVOKE " + r.Privilege
	if r.Column != "" {
		revoke += " (" + pgx.Identifier{r.Column}.Sanitize() + ")"
	}
	pgtest.Exec(t, nested, revoke+" ON "+r.Table+" FROM "+string(role))
	for name := range b.takes {
		if runs(role, name) && strings.Contains(b.all[name], r.Table) && !b.may(t, role, name) {
			return true
		}
	}
	return false
}

var (
	// direct is a query of a Reader, handed is one whose queries another function runs, kept is one that has a name.
	direct = regexp.MustCompile(`dbsqlc\.New\([\w.]+\.Reader\(\)\)\.(\w+)\(`)
	handed = regexp.MustCompile(`\((?:ctx, )?dbsqlc\.New\([\w.]+\.Reader\(\)\)[,)]`)
	kept   = regexp.MustCompile(`(\w+) := dbsqlc\.New\([\w.]+\.Reader\(\)\)\n`)
	// listed is one that a list of operators is read by.
	listed = regexp.MustCompile(`\(\*dbsqlc\.Queries\)\.(\w+)\b`)

	writes  = regexp.MustCompile(`(?i)\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|nextval|set_config|pg_logical_emit_message)\b`)
	comment = regexp.MustCompile(`(?m)^--.*$`)
)

// handedOn are the queries of those functions that are handed a Reader.
var handedOn = []string{
	"payments.BookedMovements", "payments.KnownElsewhere", "operator.Backlog", "operator.ListWatermarks",
	"statement.OpenBreaks",
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
		found := append(direct.FindAllStringSubmatch(source, -1), listed.FindAllStringSubmatch(source, -1)...)
		for _, m := range found {
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
	if len(names) < 30 || handedTo != 6 {
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
