package idempotency

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func (b *bench) counts() KeyCounts {
	b.t.Helper()
	c, err := b.keys.KeyCounts(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// crowd puts as many keys into each status.
func (b *bench) crowd(counts map[Status]int) {
	b.t.Helper()
	n := 0
	for _, status := range []Status{ExpiredStatus, CompletedStatus, FailedRetryableStatus, UnknownStatus,
		InProgressStatus} {
		for range counts[status] {
			b.ref = refOf(b.t, "acme", fmt.Sprintf("order-%010d", n))
			b.putInto(status)
			n++
		}
	}
}

// A gauge that is not set is not zero: each status is counted, also those of which there is none.
func TestCensusOfASmallTableIsExact(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := KeyCounts{ByStatus: map[Status]int64{}}
	for _, status := range statuses() {
		want.ByStatus[status] = 0
	}
	if diff := cmp.Diff(want, b.counts()); diff != "" {
		t.Fatalf("census of nothing differs:\n%s", diff)
	}
	counts := map[Status]int{InProgressStatus: 1, CompletedStatus: 5, FailedRetryableStatus: 2, UnknownStatus: 4,
		ExpiredStatus: 3}
	b.crowd(counts)
	for status, n := range counts {
		want.ByStatus[status] = int64(n)
	}
	// Also where PostgreSQL's statistics are behind, as long as they speak of a small table.
	for _, estimate := range []int{-1, 0, 99_999} {
		b.believeRows(estimate)
		if diff := cmp.Diff(want.ByStatus, b.counts().ByStatus); diff != "" {
			t.Errorf("census at an estimate of %d rows differs:\n%s", estimate, diff)
		}
	}
}

// believeRows has PostgreSQL's statistics say that the table has as many rows.
func (b *bench) believeRows(n int) {
	b.t.Helper()
	b.exec("UPDATE pg_class SET reltuples = $1 WHERE oid = 'idempotency_keys'::regclass", n)
}

// The finished keys of a big table are estimated by their shares; the open ones, on which alarms hang, are still
// counted.
func TestCensusOfABigTableEstimatesWhatIsFinishedAndCountsWhatIsOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, sixteen := range []map[Status]int{
		{ExpiredStatus: 2, CompletedStatus: 8, FailedRetryableStatus: 4, UnknownStatus: 1, InProgressStatus: 1},
		{ExpiredStatus: 0, CompletedStatus: 8, FailedRetryableStatus: 2, UnknownStatus: 0, InProgressStatus: 6},
	} {
		b.again().crowd(sixteen)
		b.exec("ANALYZE idempotency_keys")
		for _, rows := range []int{100_000, 10_000_000} {
			b.believeRows(rows)
			want := map[Status]int64{}
			for status, n := range sixteen {
				want[status] = int64(n * rows / 16)
			}
			for _, open := range []Status{UnknownStatus, InProgressStatus} {
				want[open] = int64(sixteen[open])
			}
			if diff := cmp.Diff(want, b.counts().ByStatus); diff != "" {
				t.Errorf("census of %d rows differs:\n%s", rows, diff)
			}
		}
	}
}

// Other columns have a key's status among their values, too: of another table, of a table with the same name in another
// schema, and of the keys themselves.
func TestCensusReadsTheShareOfItsOwnColumn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crowd(map[Status]int{CompletedStatus: 8})
	b.unguarded("UPDATE idempotency_keys SET response_content_type = 'completed'")
	b.exec("CREATE TABLE another (status text)")
	b.exec("CREATE SCHEMA another")
	b.exec("CREATE TABLE another.idempotency_keys (status text)")
	for _, table := range []string{"another", "another.idempotency_keys"} {
		b.exec("INSERT INTO " + table + " SELECT 'completed' FROM generate_series(1, 8)")
		b.exec("ANALYZE " + table)
	}
	b.exec("ANALYZE idempotency_keys")
	b.believeRows(100_000)
	if n := b.counts().ByStatus[CompletedStatus]; n != 100_000 {
		t.Errorf("%d keys are completed, want 100000", n)
	}
}

func TestAgeOfTheOldestUnknownKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crowd(map[Status]int{CompletedStatus: 1, UnknownStatus: 3})
	b.unguarded("UPDATE idempotency_keys SET created_at = created_at - interval '1 year'")
	if age := b.counts().OldestUnknown; age <= 0 || age > patience {
		t.Fatalf("keys that have just become unknown are %s old", age)
	}
	b.unguarded("UPDATE idempotency_keys SET unknown_since = unknown_since - right(key, 1)::int * interval '1 hour'")
	if age := b.counts().OldestUnknown.Round(time.Minute); age != 3*time.Hour {
		t.Fatalf("the oldest is %s old, want 3 h", age)
	}
	b.again().putInto(CompletedStatus)
	if age := b.counts().OldestUnknown; age != 0 {
		t.Fatalf("without an unknown key the oldest is %s old", age)
	}
}
