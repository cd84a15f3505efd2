package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// Which process runs which statement. A statement that is not named here is run by both.

// byNeither are those of api keys and api installation, which a person runs as the migrator, and of api roles and api
// migrate.
var byNeither = []string{
	"tenants.CreateTenant",
	"tenants.InsertKey", "tenants.ListKeys", "tenants.ExpireKey",
	"tenants.SetRate",
	"postgres.CreateRoles", "postgres.DatabaseRights", "postgres.grantRights", "postgres.letIn",
	"postgres.warnOfOtherOwner", "postgres.SetInstallation",
}

var byAPI = []string{
	"idempotency.ReserveKeys", "idempotency.RetakeKey", "idempotency.RenewKey", "payments.BeginPayments",
	"payments.ResumePayment", "payments.RememberObject",
	"payments.BeginRefund", "payments.ResumeRefund", "webhooks.StoreEvents", "webhooks.WakeQueue",
	"events.LockTenant", "events.SetTells", "events.CountEndpoints", "events.CreateEndpoint",
	"events.ListEndpoints", "events.WithdrawEndpoint",
	"events.RotateSecret", "events.EnableEndpoint", "events.FindInFeed", "events.ReadFeed", "events.Redeliver",
	"events.AuditEndpoint", "events.ListEndpointActions",
}

var byReconciler = []string{
	"idempotency.SweepLeases", "idempotency.ClaimDue", "idempotency.ExpireKeys", "idempotency.DeleteKeys",
	"idempotency.FindDueKeys", "idempotency.FindDeadLettered", "webhooks.PruneEvents",
	"reconcile.BeginWalk", "reconcile.AdvanceWalk", "reconcile.EndWalk", "reconcile.LockLedgers", "reconcile.FailWalk",
	"reconcile.ListAccounts", "payments.RecordRefundElsewhere", "payments.RecordDispute",
	"events.AddDeliveries", "events.AdvanceFeed", "events.DeleteDeliveriesOf", "events.DeleteDeliveriesOfEvents",
	"events.DeleteEndpoint", "events.DeleteEvents", "events.FindDeletedEndpoints", "events.FindDueEndpoints",
	"events.FindNewEvents", "events.FindOldEvents", "events.GetDueDeliveries", "events.LockFeed", "events.PlaceEvents",
	"events.RecordDeliveries", "events.RestEndpoint", "events.RestEndpoints",
	"statement.AdoptByPSPID", "statement.CountAbsent",
	"statement.FetchCharges", "statement.FetchElsewhere", "statement.FetchOurs", "statement.FetchStrangers",
	"statement.DayPayouts", "statement.FindAbsent", "statement.ForgetBooked", "statement.KeepBooked",
	"statement.KeepPaid",
	"statement.FinalMovements", "statement.FindAccounts",
	"statement.ForgetListed", "statement.ForgetPending", "statement.ForgetPresent", "statement.ForgetUnmoved",
	"statement.ListPending", "statement.MarkGone", "statement.MissingDays", "statement.OpenBreaks",
	"statement.Totals", "statement.TryLock", "statement.WriteAbsences",
	"statement.WriteLineBreaks", "statement.WritePending", "statement.WriteRun",
	"river.JobDeleteBefore", "river.JobGetAvailable", "river.JobGetCancelRequested", "river.JobGetStuck",
	"river.JobRescueMany", "river.JobSchedule",
	"river.JobSetStateIfRunningMany", "river.LeaderAttemptElect", "river.LeaderAttemptReelect",
	"river.LeaderDeleteExpired", "river.LeaderResign",
	"river.QueueCreateOrSetUpdatedAt", "river.QueueDeleteExpired", "river.QueueGet",
}

// ofRiver are River's statements that both processes run. The rest of River's, beside those of the reconciler, nobody
// does.
var ofRiver = []string{"river.JobInsertFastMany", "river.JobRetry"}

// utilities are statements that EXPLAIN does not take. The bench runs them as the reconciler, whose they are. It also
// copies into a table that it has made by them.
var utilities = []string{"statement.begin", "statement.createTables", "statement.load"}

// beginsLikeSQL finds a statement that is written in Go, by how it begins.
var beginsLikeSQL = regexp.MustCompile(`^(--.*\s+)?(ALTER|ANALYZE|CALL|COPY|CREATE|DELETE|DO|GRANT|INSERT|LISTEN|LOCK|MERGE|NOTIFY|REVOKE|SELECT|SET|` +
	`TRUNCATE|UPDATE|VACUUM|WITH)\s`)

// byHand adds the statements that are not generated, by package and the function or constant that has them.
func byHand(t *testing.T, to map[string]string) {
	t.Helper()
	for _, top := range []string{"..", "../../cmd/api", "../../cmd/reconciler"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			switch name := d.Name(); {
			case err != nil:
				return err
			case d.IsDir() && contains([]string{"dbsqlc", "testdata"}, name):
				return fs.SkipDir // generated, or not built
			case filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
				literals(t, path, to)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func literals(t *testing.T, file string, to map[string]string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	add := func(owner string, in ast.Node) {
		ast.Inspect(in, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok || !beginsLikeSQL.MatchString(text(e)) {
				return true
			}
			name := parsed.Name.Name + "." + owner
			for i := 2; to[name] != ""; i++ {
				name = fmt.Sprintf("%s.%s %d", parsed.Name.Name, owner, i)
			}
			to[name] = text(e)
			return false
		})
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Name.Name, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					add(values.Names[0].Name, values)
				}
			}
		}
	}
}

// statements are all that the program sends, by package and name.
func statements(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	byHand(t, all)
	tables, err := os.ReadFile("../statement/tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	all["statement.createTables"] = string(tables)
	generated, err := filepath.Glob("../*/internal/dbsqlc/*.sql.go")
	if err != nil || len(generated) < 7 {
		t.Fatalf("find generated code: %v, %q", err, generated)
	}
	for _, file := range generated {
		constants(t, file, strings.Split(filepath.ToSlash(file), "/")[1], all)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/riverqueue/river/riverdriver/riverpgxv5").Output()
	if err != nil {
		t.Fatalf("find River: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "internal/dbsqlc/*.sql.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find River's statements: %v, %q", err, files)
	}
	for _, file := range files {
		constants(t, file, "river", all)
	}
	return all
}

var queryName = regexp.MustCompile(`^-- name: (\w+) :`)

// constants adds the statements of a file that sqlc has written.
func constants(t *testing.T, file, owner string, to map[string]string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if name := queryName.FindStringSubmatch(text(spec.Values[0])); name != nil {
			// River puts the schema where it says so, also inside a literal.
			to[owner+"."+name[1]] = strings.ReplaceAll(text(spec.Values[0]), "/* TEMPLATE: schema */", "")
		}
		return false
	})
}

// text is a string constant: literals, and what + joins.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	}
	return ""
}

// runs tells whether the process of a role runs a statement.
func runs(role postgres.Role, name string) bool {
	switch {
	case contains(byNeither, name), contains(utilities, name):
		return false
	case contains(byAPI, name):
		return role == postgres.API
	case contains(byReconciler, name):
		return role == postgres.Reconciler
	}
	return !strings.HasPrefix(name, "river.") || contains(ofRiver, name)
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
	"payments.BookedMovements", "operator.Backlog", "operator.ListWatermarks", "statement.OpenBreaks",
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
	if len(names) < 30 || handedTo != 5 {
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

// ofType are values for parameters: whatever fits their type.
var ofType = map[string]string{
	"text": "acme", "text[]": "{acme}", "uuid": "01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44",
	"uuid[]": "{01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44}",
	"bytea":  `\x00`, "bytea[]": `{"\\x00"}`, "integer": "1", "integer[]": "{1}", "smallint": "1", "smallint[]": "{1}",
	"bigint": "1", "bigint[]": "{1}",
	"boolean": "true", "boolean[]": "{true}", "interval": "1 s", "timestamp with time zone": "2026-01-01Z",
	"timestamp with time zone[]": "{2026-01-01Z}", "date": "2026-01-01", "date[]": "{2026-01-01}",
	"jsonb": "{}", "jsonb[]": "{null}", "name": "acme", "oid": "1", "bigint[][]": "{1}", "regclass": "payments",
}

// asked finds what a statement compares a parameter with. PostgreSQL evaluates that when it plans the statement, and
// another part of it is left for Citus.
var asked = regexp.MustCompile(`\$(\d+)::text = '(\w+)'`)

// Citus refuses some statements when it plans them, whatever is in the tables.
func TestCitusPlansEveryStatement(t *testing.T) {
	if !pgtest.OnCitus() {
		t.Skip("for make citus: " + pgtest.Citus + " is not set")
	}
	conn := pgtest.Connect(t, pgtest.NewURL(t))
	all := statements(t)
	pgtest.Exec(t, conn, strings.ReplaceAll(all["statement.createTables"], "ON COMMIT DROP", ""))
	pgtest.Exec(t, conn, "INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acme')")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "river.") || !runs(postgres.API, name) && !runs(postgres.Reconciler, name) ||
			strings.HasPrefix(name, "postgres.") {
			continue
		}
		for _, choice := range append([][]string{{"", "", ""}}, asked.FindAllStringSubmatch(all[name], -1)...) {
			if err := try(t.Context(), conn, all[name], choice[1], choice[2]); err != nil {
				t.Errorf("%s, %s: %v", name, choice[0], err)
			}
		}
	}
}

// try runs a statement in a transaction that is rolled back, and fails if Citus cannot plan it. A parameter
// may have a value of its own.
func try(ctx context.Context, conn *pgx.Conn, sql, parameter, own string) (err error) {
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() {
		_, end := conn.Exec(ctx, "ROLLBACK")
		err = errors.Join(err, end)
	}()
	d, err := conn.PgConn().Prepare(ctx, "", sql, nil)
	if err != nil {
		return err
	}
	var values [][]byte
	for i, oid := range d.ParamOIDs {
		var name string
		if err := conn.QueryRow(ctx, "SELECT format_type($1, NULL)", oid).Scan(&name); err != nil {
			return err
		}
		value, ok := ofType[name]
		if !ok {
			return errors.New("no value of type " + name)
		}
		if strconv.Itoa(i+1) == parameter {
			value = own
		}
		values = append(values, []byte(value))
	}
	_, err = conn.PgConn().ExecParams(ctx, sql, values, d.ParamOIDs, nil, nil).Close()
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "0A000" || strings.HasPrefix(refused.Code, "42") ||
		strings.HasPrefix(refused.Code, "XX")) {
		return err
	}
	return nil
}
