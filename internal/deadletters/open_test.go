package deadletters

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestSameFindingIsOneDeadLetter(t *testing.T) {
	t.Parallel()
	o := setup(t)
	first := aDeadLetter()
	again := first
	again.ID, again.Reason = uuid.Must(uuid.NewV7()), "seen once more"
	for _, l := range []DeadLetter{first, again} {
		var opened bool
		if err := o.db.Pipeline(t.Context(), OpenNew(l, &opened)); err != nil || opened != (l.ID == first.ID) {
			t.Errorf("opened %t, %v", opened, err)
		}
	}
	if got := o.open(); len(got) != 1 || got[0].ID != first.ID || got[0].Reason != first.Reason {
		t.Fatalf("dead letters are %+v", got)
	}
}

func TestAnotherFindingIsAnotherDeadLetter(t *testing.T) {
	t.Parallel()
	o := setup(t)
	other := aDeadLetter()
	other.Kind = LookupsExhausted
	for name, l := range map[string]DeadLetter{"first": aDeadLetter(), "another kind": other,
		"another finding": of(2)} {
		before := len(o.open())
		o.put(l)
		if len(o.open()) != before+1 {
			t.Errorf("%s was taken for the same", name)
		}
	}
}

func TestFindingNamesTheKeyItsGenerationAndItsSubject(t *testing.T) {
	t.Parallel()
	l := aDeadLetter()
	a := *l.About
	seen := map[string]bool{a.KeyFinding(uuid.Must(uuid.NewV7())): true}
	for _, change := range []func(*About){
		func(*About) {}, func(a *About) { a.Generation = 2 }, func(a *About) { a.Key += "3" },
		func(a *About) { a.Tenant = "globex" },
		func(a *About) { a.Operation = "POST /payments/{id}/refunds" },
	} {
		b := a
		change(&b)
		seen[b.KeyFinding(*l.Subject)] = true
	}
	if len(seen) != 6 {
		t.Fatalf("findings are %v", seen)
	}
}

func TestDeadLettersThatCannotBe(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for name, change := range map[string]func(*DeadLetter){
		"a reason without bounds":  func(l *DeadLetter) { l.Reason = strings.Repeat("x", 501) },
		"no evidence":              func(l *DeadLetter) { l.Evidence = nil },
		"evidence that is no JSON": func(l *DeadLetter) { l.Evidence = []byte("<html>") },
	} {
		l := aDeadLetter()
		change(&l)
		err := o.send(l)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The column counts characters. A reason that is too long would keep its dead letter from being opened.
func TestReasonIsCutToItsColumn(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, MaxReason: MaxReason, MaxReason + 1: MaxReason} {
		if got := Clip(strings.Repeat("ä", n)); got != strings.Repeat("ä", want) {
			t.Errorf("of %d characters, %d are left", n, len([]rune(got)))
		}
	}
}
