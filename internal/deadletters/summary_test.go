package deadletters

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
