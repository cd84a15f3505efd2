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
	if diff := cmp.Diff(want.ByStatus, b.counts().ByStatus); diff != "" {
		t.Errorf("census differs:\n%s", diff)
	}
}

// The finished keys of a big table are estimated from some of its pages, also on a table without statistics. The open
// ones, on which alarms hang, are counted.
func TestCensusOfABigTableEstimatesWhatIsFinishedAndCountsWhatIsOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crowd(map[Status]int{CompletedStatus: 1, FailedRetryableStatus: 1, UnknownStatus: 2, InProgressStatus: 3})
	b.unguarded(`INSERT INTO idempotency_keys
		SELECT (jsonb_populate_record(k, jsonb_build_object('key', 'more-' || n, 'response_location', repeat('x', 1000)))).*
		FROM idempotency_keys AS k, generate_series(1, 24000) AS n
		WHERE k.status = CASE n % 4 WHEN 0 THEN 'failed_retryable' ELSE 'completed' END`)
	if pages := b.counted("SELECT pg_relation_size('idempotency_keys') / 8192"); pages < 2500 {
		t.Fatalf("the table has %d pages: all are read", pages)
	}
	got := b.counts().ByStatus
	if got[UnknownStatus] != 2 || got[InProgressStatus] != 3 || got[ExpiredStatus] != 0 ||
		got[CompletedStatus] < 16_000 || got[CompletedStatus] > 20_000 ||
		got[FailedRetryableStatus] < 5_000 || got[FailedRetryableStatus] > 7_000 {
		t.Errorf("census is %v", got)
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
