package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// servers is what a DB does in another way if its tables lie on many servers.
type servers interface {
	// connected is called for each new connection of the pool.
	connected(ctx context.Context, conn *pgx.Conn) error
	// together reports whether a key may be in the next group. The first waits longest, and was not in passed groups.
	together(waiting []string, passed int) func(key string) bool
	// send sends a pipeline. batch has the statements of the calls.
	send(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch, calls []Call) error
	// ended says what is known after an explicit COMMIT was sent.
	ended(err error) error
}

type oneServer struct{}

func (oneServer) connected(context.Context, *pgx.Conn) error { return nil }

func (oneServer) together([]string, int) func(string) bool { return func(string) bool { return true } }

func (oneServer) send(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch, _ []Call) error {
	return classifyCommit(conn.SendBatch(ctx, batch).Close()) // It hands each call its rows, until a call fails.
}

func (oneServer) ended(err error) error { return classifyCommit(err) }

// statementAs is where a connection keeps how a statement must be written, if its tables lie on many servers.
const statementAs = "payonce: statement as"

// distributes is what a Migration does besides if the tables lie on many servers, or shall from now on.
type distributes interface {
	// begin is called first. own is the configuration of the connection that migrates.
	begin(ctx context.Context, own *pgx.ConnConfig) error
	// end is called after the migrations. later: the schema is that of a later release.
	end(ctx context.Context, later bool) error
	// beforeGrants is called in the transaction that gives the rights.
	beforeGrants(ctx context.Context, tx pgx.Tx) error
	// grant gives a role its rights. file does, on one server.
	grant(ctx context.Context, tx pgx.Tx, role Role, file func() error) error
}
