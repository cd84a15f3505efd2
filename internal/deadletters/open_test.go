package deadletters

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestDeadLetterIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	o := setup(t)
	if _, err := Get(t.Context(), o.db.Reader(), uuid.Must(uuid.NewV7())); !errors.Is(err, ErrNoDeadLetter) {
		t.Errorf("one that is not there: %v", err)
	}
	about := aDeadLetter()
	alone := aDeadLetter()
	alone.Kind, alone.Finding, alone.About, alone.Subject = UnknownMovement, "charge ch_1", nil, nil
	for _, l := range []DeadLetter{about, alone} {
		o.put(l)
		got, err := Get(t.Context(), o.db.Reader(), l.ID)
		if err != nil || got.Opened.IsZero() {
			t.Fatalf("%+v, %v", got, err)
		}
		l.Version, l.Opened, l.Age = 1, got.Opened, got.Age
		if diff := cmp.Diff(l, got); diff != "" {
			t.Fatal(diff)
		}
	}
}

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

// What is found about a payment whose key was renewed says nothing of the payment that has the key now.
func TestDeadLetterConcernsItsOwnPaymentAlone(t *testing.T) {
	t.Parallel()
	l := aDeadLetter()
	mine, another := *l.Subject, uuid.Must(uuid.NewV7())
	whole, aboutNothing := l, l
	whole.Subject, aboutNothing.About = nil, nil
	for name, c := range map[string]struct {
		l          DeadLetter
		generation int32
		subject    uuid.UUID
		want       bool
	}{
		"its payment":        {l, 1, mine, true},
		"another payment":    {l, 1, another, false},
		"another generation": {l, 2, mine, false},
		"no payment":         {whole, 1, another, false},
		"no key at all":      {aboutNothing, 1, mine, false},
	} {
		if got := c.l.Concerns(c.generation, c.subject); got != c.want {
			t.Errorf("%s: %t", name, got)
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

// A retry says "find out once more", so that what is found then is news. Any other decision is about the finding
// itself.
func TestFindingComesBackOnlyAfterARetry(t *testing.T) {
	t.Parallel()
	for action, want := range map[Action]int{Retry: 1, Executed: 0, NotExecuted: 0, Dismiss: 0} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			l := aDeadLetter()
			o.put(l)
			if _, err := o.resolve(l.ID, 1, action); err != nil {
				t.Fatal(err)
			}
			if got := o.open(); len(got) != 0 {
				t.Fatalf("resolved dead letters read as open: %+v", got)
			}
			o.put(DeadLetter{
				ID: uuid.Must(uuid.NewV7()), Kind: l.Kind, Finding: l.Finding, About: l.About, Subject: l.Subject,
				Reason: l.Reason, Evidence: l.Evidence,
			})
			if got := o.open(); len(got) != want {
				t.Fatalf("%d dead letters are open, want %d", len(got), want)
			}
		})
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
