package pgtest

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Overheard takes the place of a connection of the generated queries, and keeps
// the statement that it was asked, so that a test can explain it. Every answer
// is an error.
type Overheard struct{ SQL string }

var errOnlyListening = errors.New("only listening")

// Exec keeps the statement.
func (o *Overheard) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	o.SQL = sql
	return pgconn.CommandTag{}, errOnlyListening
}

// Query keeps the statement.
func (o *Overheard) Query(_ context.Context, sql string, _ ...any) (pgx.Rows, error) {
	o.SQL = sql
	return nil, errOnlyListening
}

// QueryRow keeps the statement.
func (o *Overheard) QueryRow(_ context.Context, sql string, _ ...any) pgx.Row {
	o.SQL = sql
	return noRow{}
}

type noRow struct{}

func (noRow) Scan(...any) error { return errOnlyListening }
