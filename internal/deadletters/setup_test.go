package deadletters

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is the table of dead letters, on a database of the test's own.
type fixture struct {
	t    *testing.T
	pool *pgxpool.Pool
	db   *postgres.DB
}

func setup(t *testing.T) fixture {
	t.Helper()
	pool := pgtest.New(t)
	return fixture{t, pool, postgres.Wrap(pool, 0)}
}

func aDeadLetter() DeadLetter {
	about := About{Tenant: "acme", Operation: "POST /payments", Key: "order-0000000042", Generation: 1}
	subject := uuid.Must(uuid.NewV7())
	return DeadLetter{
		ID: uuid.Must(uuid.NewV7()), Kind: PSPContradicts, Finding: about.KeyFinding(subject), About: &about,
		Subject: &subject,
		Reason:  "answer has another amount", Evidence: []byte(`{"status": 201}`),
	}
}

// of is a dead letter about another generation of the same key.
func of(generation int32) DeadLetter {
	l := aDeadLetter()
	l.About.Generation = generation
	l.Finding = l.About.KeyFinding(*l.Subject)
	return l
}

func (o fixture) send(deadLetters ...DeadLetter) error {
	o.t.Helper()
	var calls []postgres.Call
	for _, l := range deadLetters {
		calls = append(calls, Open(l))
	}
	return o.db.Pipeline(o.t.Context(), calls...)
}

func (o fixture) put(deadLetters ...DeadLetter) {
	o.t.Helper()
	if err := o.send(deadLetters...); err != nil {
		o.t.Fatal(err)
	}
}

func (o fixture) list(f Filter) Page {
	o.t.Helper()
	page, err := List(o.t.Context(), o.db, f)
	if err != nil {
		o.t.Fatal(err)
	}
	return page
}

func (o fixture) open() []DeadLetter {
	o.t.Helper()
	return o.list(Filter{Status: OpenStatus, Limit: MaxPage}).DeadLetters
}

// resolve closes a dead letter in a transaction of its own.
func (o fixture) resolve(id uuid.UUID, version int32, action Action) (DeadLetter, error) {
	o.t.Helper()
	var resolved DeadLetter
	err := o.db.Transact(o.t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		resolved, err = ResolveTx(ctx, tx, Decision{DeadLetter: id, Version: version, Action: action, Actor: "ann",
			Reason: "seen to it"})
		return err
	})
	return resolved, err
}

func (o fixture) trail(id uuid.UUID) []AuditEntry {
	o.t.Helper()
	trail, err := AuditTrail(o.t.Context(), o.db, id)
	if err != nil {
		o.t.Fatal(err)
	}
	return trail
}

func (o fixture) exec(sql string, args ...any) {
	o.t.Helper()
	pgtest.Exec(o.t, o.pool, sql, args...)
}
