package deadletters

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestPagesAreTheWholeListNewestFirst(t *testing.T) {
	t.Parallel()
	o := setup(t)
	var want []uuid.UUID
	for i := range 7 {
		l := of(int32(i + 1))
		want = append(want, l.ID)
		o.put(l)
	}
	slices.Reverse(want)
	for limit := 1; limit <= 8; limit++ {
		var got []uuid.UUID
		f := Filter{Status: OpenStatus, Limit: limit}
		for {
			page := o.list(f)
			if len(page.DeadLetters) == 0 || len(page.DeadLetters) > limit {
				t.Fatalf("a page of %d has %d dead letters", limit, len(page.DeadLetters))
			}
			for _, l := range page.DeadLetters {
				got = append(got, l.ID)
			}
			if len(got) > len(want) {
				t.Fatalf("pages of %d lead in a circle: %v", limit, got)
			}
			if f.Before = page.Next; f.Before == nil {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pages of %d give %v, want %v", limit, got, want)
		}
	}
}

// Dead letters opened by one statement may have the same time: the id tells them apart.
func TestDeadLettersOfOneMomentAreNeitherSkippedNorRepeated(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec(`INSERT INTO dead_letters (id, kind, finding, reason, evidence, opened_at)
		SELECT gen_random_uuid(), 'unknown_movement', 'charge ' || n, '', '{}', '2026-11-20 09:00:00+00' FROM generate_series(1, 9) AS n`)
	seen := map[uuid.UUID]bool{}
	f := Filter{Status: OpenStatus, Limit: 2}
	for {
		page := o.list(f)
		for _, l := range page.DeadLetters {
			if seen[l.ID] {
				t.Fatalf("%s comes twice", l.ID)
			}
			seen[l.ID] = true
		}
		if f.Before = page.Next; f.Before == nil {
			break
		}
	}
	if len(seen) != 9 {
		t.Fatalf("%d of 9 dead letters were listed", len(seen))
	}
}

func TestPageIsBounded(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec(`INSERT INTO dead_letters (id, kind, finding, reason, evidence)
		SELECT gen_random_uuid(), 'unknown_movement', 'charge ' || n, '', '{}' FROM generate_series(1, $1::int) AS n`, MaxPage+1)
	for limit, want := range map[int]int{-1: 1, 0: 1, MaxPage: MaxPage, MaxPage + 1: MaxPage, 1 << 40: MaxPage} {
		if page := o.list(Filter{Status: OpenStatus, Limit: limit}); len(page.DeadLetters) != want || page.Next == nil {
			t.Errorf("limit %d: %d dead letters, more %v", limit, len(page.DeadLetters), page.Next != nil)
		}
	}
}

func TestOpenAndResolvedAreTwoLists(t *testing.T) {
	t.Parallel()
	o := setup(t)
	first, second := of(1), of(2)
	o.put(first, second)
	if _, err := o.resolve(first.ID, 1, Dismiss); err != nil {
		t.Fatal(err)
	}
	open := o.list(Filter{Status: OpenStatus, Limit: 10}).DeadLetters
	closed := o.list(Filter{Status: ResolvedStatus, Limit: 10}).DeadLetters
	if len(open) != 1 || open[0].ID != second.ID || open[0].Status() != OpenStatus {
		t.Errorf("open are %+v", open)
	}
	if len(closed) != 1 || closed[0].ID != first.ID || closed[0].Status() != ResolvedStatus {
		t.Errorf("resolved are %+v", closed)
	}
}

func TestAgeIsByTheDatabasesClockAndNeverNegative(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec(`INSERT INTO dead_letters (id, kind, finding, reason, evidence, opened_at) VALUES
		(gen_random_uuid(), 'unknown_movement', 'old', '', '{}', clock_timestamp() - interval '3 hours'),
		(gen_random_uuid(), 'unknown_movement', 'to come', '', '{}', clock_timestamp() + interval '3 hours')`)
	got := o.list(Filter{Status: OpenStatus, Limit: MaxPage}).DeadLetters
	if len(got) != 2 || got[0].Age != 0 || got[1].Age < 3*time.Hour || got[1].Age > 4*time.Hour {
		t.Fatalf("dead letters are %+v", got)
	}
}

// Each filter is asked at its bound, where one of two dead letters is on either side.
func TestEachFilterLeavesTheOthersOut(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec(`INSERT INTO dead_letters (id, kind, finding, reason, evidence, opened_at, tenant_id, operation, key, generation) VALUES
		(gen_random_uuid(), 'unknown_movement', 'old', '', '{}', '2026-11-20 09:00:00+00', 'globex', 'POST /payments', 'k', 1),
		(gen_random_uuid(), 'job_failed', 'new', '', '{}', '2026-11-20 10:00:00+00', 'acme', 'POST /payments', 'k', 1),
		(gen_random_uuid(), 'job_failed', 'now', '', '{}', payonce_now(), NULL, NULL, NULL, NULL)`)
	nine, ten := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	later := ten.Add(time.Microsecond)
	for want, f := range map[string]Filter{
		"now new old": {},
		"old":         {Kind: UnknownMovement},
		"new":         {Tenant: "acme"},
		"now new":     {OpenedAfter: &ten},
		"now":         {OpenedAfter: &later},
		"":            {OpenedBefore: &nine},
		"old ":        {OpenedBefore: &ten},
		"new old":     {Age: time.Hour},
		" old": {Kind: UnknownMovement, Tenant: "globex", OpenedAfter: &nine, OpenedBefore: &ten,
			Age: time.Hour},
	} {
		f.Status, f.Limit = OpenStatus, MaxPage
		var got []string
		for _, l := range o.list(f).DeadLetters {
			got = append(got, l.Finding)
		}
		if strings.Join(got, " ") != strings.TrimSpace(want) {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}

func TestSummaryCountsOpenDeadLettersOnly(t *testing.T) {
	t.Parallel()
	o := setup(t)
	summarize := func() Summary {
		s, err := Summarize(t.Context(), o.db)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := summarize(); len(s.Open) != 0 || s.Oldest != 0 {
		t.Fatalf("without dead letters the summary is %+v", s)
	}
	o.exec(`INSERT INTO dead_letters (id, kind, finding, reason, evidence, opened_at)
		SELECT gen_random_uuid(), kind, age, '', '{}', clock_timestamp() - age::interval
		FROM (VALUES ('other_account', '5 hours'), ('unknown_movement', '2 hours'), ('unknown_movement', '1 hour')) AS v (kind, age)`)
	s := summarize()
	if diff := cmp.Diff(map[Kind]int64{OtherAccount: 1, UnknownMovement: 2}, s.Open); diff != "" ||
		s.Oldest < 5*time.Hour || s.Oldest > 6*time.Hour {
		t.Fatalf("%s, oldest %s", diff, s.Oldest)
	}
	oldest := o.list(Filter{Status: OpenStatus, Limit: 10}).DeadLetters[2]
	if _, err := o.resolve(oldest.ID, 1, Dismiss); err != nil {
		t.Fatal(err)
	}
	s = summarize()
	if diff := cmp.Diff(map[Kind]int64{UnknownMovement: 2}, s.Open); diff != "" || s.Oldest < 2*time.Hour ||
		s.Oldest > 3*time.Hour {
		t.Fatalf("%s, oldest %s", diff, s.Oldest)
	}
}

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
