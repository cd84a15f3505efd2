package deadletters

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/pgtest"
	"payonce/internal/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// office is where letters are kept, on a database of the test's own.
type office struct {
	t    *testing.T
	pool *pgxpool.Pool
	db   *postgres.DB
}

func setup(t *testing.T) office {
	t.Helper()
	pool := pgtest.New(t)
	return office{t, pool, postgres.Wrap(pool, 0)}
}

func aLetter() Letter {
	return Letter{
		ID: uuid.Must(uuid.NewV7()), Kind: PSPContradicts, Tenant: "acme", Scope: "acme POST /payments", Key: "order-0000000042",
		Generation: 1, Subject: uuid.Must(uuid.NewV7()), Reason: "answer has another amount", Evidence: []byte(`{"status": 201}`),
	}
}

func (o office) send(letters ...Letter) error {
	o.t.Helper()
	b := &pgx.Batch{}
	for _, l := range letters {
		QueueOpen(b, l)
	}
	return o.db.Send(o.t.Context(), b)
}

func (o office) open(limit int32) []Letter {
	o.t.Helper()
	letters, err := Open(o.t.Context(), o.db, limit)
	if err != nil {
		o.t.Fatal(err)
	}
	return letters
}

func TestLetterIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aLetter()
	if err := o.send(l); err != nil {
		t.Fatal(err)
	}
	got := o.open(10)
	if len(got) != 1 || got[0].Opened.IsZero() {
		t.Fatalf("letters are %+v", got)
	}
	l.Version, l.Opened = 1, got[0].Opened
	if diff := cmp.Diff(l, got[0]); diff != "" {
		t.Fatal(diff)
	}
}

func TestSameFindingIsOneLetter(t *testing.T) {
	t.Parallel()
	o := setup(t)
	first := aLetter()
	again := first
	again.ID, again.Reason = uuid.Must(uuid.NewV7()), "seen once more"
	for _, l := range []Letter{first, again} {
		if err := o.send(l); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.open(10); len(got) != 1 || got[0].ID != first.ID || got[0].Reason != first.Reason {
		t.Fatalf("letters are %+v", got)
	}
}

func TestAnotherFindingIsAnotherLetter(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for name, change := range map[string]func(*Letter){
		"first":              func(*Letter) {},
		"another kind":       func(l *Letter) { l.Kind = "charge_without_payment" },
		"another generation": func(l *Letter) { l.Generation = 2 },
		"another key":        func(l *Letter) { l.Key += "3" },
		"another scope":      func(l *Letter) { l.Scope = "globex POST /payments" },
	} {
		l := aLetter()
		change(&l)
		before := len(o.open(10))
		if err := o.send(l); err != nil {
			t.Fatal(err)
		}
		if len(o.open(10)) != before+1 {
			t.Errorf("%s was taken for the same", name)
		}
	}
}

// What was resolved and happens again is a new case.
func TestFindingAfterItsResolutionIsANewLetter(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for range 2 {
		if err := o.send(aLetter()); err != nil {
			t.Fatal(err)
		}
		if got := o.open(10); len(got) != 1 {
			t.Fatalf("%d letters are open", len(got))
		}
		if _, err := o.pool.Exec(t.Context(), "UPDATE dead_letters SET status = 'resolved'"); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.open(10); len(got) != 0 {
		t.Fatalf("resolved letters read as open: %+v", got)
	}
}

func TestOldestLettersComeFirst(t *testing.T) {
	t.Parallel()
	o := setup(t)
	var ids []uuid.UUID
	for i := range 3 {
		l := aLetter()
		l.Generation = int32(i + 1)
		ids = append(ids, l.ID)
		if err := o.send(l); err != nil {
			t.Fatal(err)
		}
	}
	got := o.open(2)
	if len(got) != 2 || got[0].ID != ids[0] || got[1].ID != ids[1] {
		t.Fatalf("letters are %+v, want the first two of %v", got, ids)
	}
}

// Neither the finding nor its letter can exist without the other.
func TestLetterIsPartOfTheTransactionThatFindsIt(t *testing.T) {
	t.Parallel()
	o := setup(t)
	b := &pgx.Batch{}
	QueueOpen(b, aLetter())
	b.Queue("SELECT 1/0")
	if err := o.db.Send(context.Background(), b); err == nil {
		t.Fatal("dividing by zero worked")
	}
	if got := o.open(10); len(got) != 0 {
		t.Fatalf("letters are %+v", got)
	}
}

func TestLettersThatCannotBe(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for name, change := range map[string]func(*Letter){
		"a reason without bounds": func(l *Letter) { l.Reason = strings.Repeat("x", 501) },
		"no evidence":             func(l *Letter) { l.Evidence = nil },
		"evidence that is no JSON": func(l *Letter) {
			l.Evidence = []byte("<html>")
		},
	} {
		l := aLetter()
		change(&l)
		err := o.send(l)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := o.send(aLetter()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.pool.Exec(t.Context(), "UPDATE dead_letters SET status = 'lost'"); err == nil {
		t.Error("a status that there is not was taken")
	}
}
