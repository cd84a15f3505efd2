package webhooks

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

const resultOfOne = "SELECT coalesce(result, 'none') FROM webhook_events WHERE id = 'evt_1'"

func TestProcessedEventSaysWhatCameOfItOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_1")
	d.receive("evt_2")
	if err := d.inbox.MarkProcessed(t.Context(), "evt_1", "resolved"); err != nil {
		t.Fatal(err)
	}
	when := d.text("SELECT processed_at::text FROM webhook_events WHERE id = 'evt_1'")
	wantErr(t, d.inbox.MarkProcessed(t.Context(), "evt_1", "dead_letter"), ErrProcessed)
	if got := d.text(resultOfOne); got != "resolved" {
		t.Errorf("the second result is %s", got)
	}
	if again := d.text("SELECT processed_at::text FROM webhook_events WHERE id = 'evt_1'"); again != when {
		t.Errorf("processed at %s, then at %s", when, again)
	}
	for id, want := range map[string]bool{"evt_1": true, "evt_2": false} {
		if s, err := d.inbox.Load(t.Context(), id); err != nil || s.Processed != want {
			t.Errorf("%s: processed %v, %v", id, s.Processed, err)
		}
	}
}

func TestEventThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	_, err := d.inbox.Load(t.Context(), "evt_none")
	wantErr(t, err, ErrNoEvent)
	wantErr(t, d.inbox.MarkProcessed(t.Context(), "evt_none", "resolved"), ErrProcessed)
}

// Otherwise an operator would wait for the processing of an event that is not there any more.
func TestEventThatWasPrunedIsNotOpenedAgain(t *testing.T) {
	t.Parallel()
	d := setup(t)
	err := pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error { return ReopenTx(t.Context(), tx, "evt_none") })
	wantErr(t, err, ErrNoEvent)
}

// The sender repeats an event until it is told that the event is stored. An operator who is told that an event is open
// again waits for its processing.
func TestStatementThatFailsStoresAndOpensNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	pool, outage := pgtest.WithOutage(t, d.pool)
	inbox := New(postgres.Wrap(pool, patience), func(context.Context, pgx.Tx, string) error { return nil })
	outage.On("name: StoreEvent", 1)
	if receipt, err := inbox.Receive(t.Context(), d.event("evt_1")); err == nil || receipt != nil {
		t.Errorf("stored: %#v, %v", receipt, err)
	}
	d.receive("evt_1")
	outage.On("name: SetResult", 1)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return ReopenTx(t.Context(), tx, "evt_1") })
	if err == nil || errors.Is(err, ErrNoEvent) || !strings.Contains(err.Error(), "reopen event") {
		t.Errorf("opened again: %v", err)
	}
}

func TestProcessingCommitsWithWhatItHasChanged(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.exec("CREATE TABLE money (n int CHECK (n > 0))")
	d.receive("evt_1")
	db := postgres.Wrap(d.pool, patience)
	change := func(n int, result string) error {
		return db.Pipeline(t.Context(), Processed("evt_1", result),
			func(ctx context.Context, q postgres.Statement) error {
				_, err := q.Exec(ctx, "INSERT INTO money VALUES ($1)", n)
				return err
			})
	}
	if err := change(-1, "resolved"); !postgres.RolledBack(err) {
		t.Fatal(err)
	}
	if got := d.text(resultOfOne); got != "none" {
		t.Fatalf("processed as %s, without its change", got)
	}
	for _, result := range []string{"resolved", "confirmed"} { // a job may run twice
		if err := change(1, result); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.text(resultOfOne); got != "resolved" {
		t.Fatalf("processed as %s", got)
	}
}

func TestStoreThatIsAwayIsNoMissingEvent(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_1")
	d.proxy.Down()
	if _, err := d.inbox.Load(t.Context(), "evt_1"); !postgres.Unavailable(err) {
		t.Error(err)
	}
	if err := d.inbox.MarkProcessed(t.Context(), "evt_1", "resolved"); !postgres.Unavailable(err) {
		t.Error(err)
	}
	if _, err := d.inbox.Prune(t.Context(), 0, 1); !postgres.Unavailable(err) {
		t.Error(err)
	}
}
