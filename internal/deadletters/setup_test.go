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

func (f fixture) send(deadLetters ...DeadLetter) error {
	f.t.Helper()
	var calls []postgres.Call
	for _, l := range deadLetters {
		calls = append(calls, Open(l))
	}
	return f.db.Pipeline(f.t.Context(), calls...)
}

func (f fixture) put(deadLetters ...DeadLetter) {
	f.t.Helper()
	if err := f.send(deadLetters...); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) list(by Filter) Page {
	f.t.Helper()
	page, err := List(f.t.Context(), f.db, by)
	if err != nil {
		f.t.Fatal(err)
	}
	return page
}

func (f fixture) open() []DeadLetter {
	f.t.Helper()
	return f.list(Filter{Status: OpenStatus, Limit: MaxPage}).DeadLetters
}

// resolve closes a dead letter in a transaction of its own.
func (f fixture) resolve(id uuid.UUID, version int32, action Action) (DeadLetter, error) {
	f.t.Helper()
	var resolved DeadLetter
	err := f.db.Transact(f.t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		resolved, err = ResolveTx(ctx, tx, Decision{DeadLetter: id, Version: version, Action: action, Actor: "ann",
			Reason: "seen to it"})
		return err
	})
	return resolved, err
}

func (f fixture) trail(id uuid.UUID) []AuditEntry {
	f.t.Helper()
	trail, err := AuditTrail(f.t.Context(), f.db, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return trail
}

func (f fixture) exec(sql string, args ...any) {
	f.t.Helper()
	pgtest.Exec(f.t, f.pool, sql, args...)
}
