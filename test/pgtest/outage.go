package pgtest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Outage has one statement fail without being sent. The session stays as it was, so code that ignores the error goes
// on. It is for one goroutine, and does not see the statements of a pipeline.
type Outage struct {
	fragment string
	n        int
}

// WithOutage returns a pool on the same database, and the outage of its statements.
func WithOutage(t testing.TB, pool *pgxpool.Pool) (*pgxpool.Pool, *Outage) {
	t.Helper()
	o := &Outage{}
	return WithTracer(t, pool, o), o
}

// WithTracer returns a pool on the same database whose statements the tracer sees.
func WithTracer(t testing.TB, pool *pgxpool.Pool, tracer pgx.QueryTracer) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	config.ConnConfig.Tracer = tracer
	traced, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	return traced
}

// On has the n-th statement from now fail whose text has the fragment. A COPY has the text COPY.
func (o *Outage) On(fragment string, n int) { *o = Outage{fragment, n} }

// Over ends the outage.
func (o *Outage) Over() { *o = Outage{} }

// TraceQueryStart implements pgx.QueryTracer.
func (o *Outage) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return o.meet(ctx, q.SQL)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*Outage) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (o *Outage) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return o.meet(ctx, "COPY")
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (*Outage) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

func (o *Outage) meet(ctx context.Context, sql string) context.Context {
	if o.n == 0 || !strings.Contains(sql, o.fragment) {
		return ctx
	}
	if o.n--; o.n > 0 {
		return ctx
	}
	ended, end := context.WithCancel(ctx)
	end()
	return ended
}
