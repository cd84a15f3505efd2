package deadletters

import (
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

// open are the dead letters that are open.
func (f fixture) open() []DeadLetter {
	f.t.Helper()
	rows, err := f.pool.Query(f.t.Context(), "SELECT id, kind, reason, evidence FROM dead_letters WHERE status = 'open'")
	if err != nil {
		f.t.Fatal(err)
	}
	open, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l DeadLetter, err error) {
		return l, row.Scan(&l.ID, &l.Kind, &l.Reason, &l.Evidence)
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return open
}

func (f fixture) exec(sql string, args ...any) {
	f.t.Helper()
	pgtest.Exec(f.t, f.pool, sql, args...)
}
