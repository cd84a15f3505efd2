package statement

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// atCommit is a tracer that calls back when a commit has been acknowledged.
type atCommit func()

type committing struct{}

func (atCommit) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, committing{}, q.SQL == "commit")
}

func (f atCommit) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(committing{}) == true {
		f()
	}
}

// What was written before is in the report. Without an error, nobody would know that there is more to do, or that the
// report was not shown.
func TestRunThatIsCalledOffSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	for _, accounts := range [][]string{nil, {"acct_acme"}} {
		testCalledOff(t, accounts...)
	}
}

func testCalledOff(t *testing.T, accounts ...string) {
	t.Helper()
	d := setup(t)
	d.publish("acct_acme", d.day)
	d.publish("acct_globex", d.day)
	ctx, callOff := context.WithCancel(t.Context())
	defer callOff()
	d.config.DB = postgres.Wrap(pgtest.WithTracer(t, d.pool, atCommit(callOff)), patience)
	report, err := d.reconciler().Run(ctx, d.day, accounts...)
	if !errors.Is(err, context.Canceled) || len(report.Runs) != 1 || report.Runs[0].Account != "acct_acme" {
		t.Errorf("%+v, %v", report.Runs, err)
	}
}

// Runs without an id of their own would take each other's breaks for theirs.
func TestRunWithoutAnIDIsNotMade(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_acme", d.day)
	d.config.NewID = func() (uuid.UUID, error) { return uuid.UUID{}, errors.New("no random numbers") }
	report, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
	if err == nil || !strings.Contains(err.Error(), "no random numbers") || len(report.Runs) != 0 {
		t.Errorf("%+v, %v", report.Runs, err)
	}
	if n := d.count("SELECT count(*) FROM statement_runs"); n != 0 {
		t.Errorf("%d runs are written", n)
	}
}
