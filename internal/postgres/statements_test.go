package postgres_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"payonce/internal/postgres"
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
	if tables, err := os.ReadFile("../statement/tables.sql"); err == nil {
		all["statement.createTables"] = string(tables)
	} else if !errors.Is(err, fs.ErrNotExist) { // The core has no statements of a day.
		t.Fatal(err)
	}
	generated, err := filepath.Glob("../*/internal/dbsqlc/*.sql.go")
	if err != nil || len(generated) < 6 {
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
