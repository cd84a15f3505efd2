package webhooks

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

func TestEventIsKeptToTheByteWithOneJob(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for id, body := range map[string][]byte{
		"evt_1": []byte("{ \"a\" : 1 }\r\n"), "evt_2": {0, 0xff, '\\'}, "evt_empty": {}, "!~": []byte("short id"),
		"evt_large": make([]byte, 1<<20),
	} {
		receipt, err := d.inbox.Receive(t.Context(), Event{ID: id, SentAt: d.sent, Body: body})
		if err != nil || receipt != Received {
			t.Fatalf("%s: %#v, %v", id, receipt, err)
		}
		stored, err := d.inbox.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		want := Stored{Event: Event{ID: id, SentAt: d.sent, Body: body}}
		stored.SentAt = stored.SentAt.UTC()
		if diff := cmp.Diff(want, stored); diff != "" {
			t.Errorf("%s is kept otherwise (-want +got):\n%s", id, diff)
		}
		if n := d.count(countJobs+" WHERE args = jsonb_build_object('eventId', $1::text)", id); n != 1 {
			t.Errorf("%s has %d jobs", id, n)
		}
	}
	d.want(5, 5)
}

// countMessages has each message that makes a commit durable leave a row.
const countMessages = `CREATE TABLE messages (sent timestamptz DEFAULT now());
	CREATE FUNCTION pg_logical_emit_message(boolean, text, text) RETURNS pg_lsn LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO messages DEFAULT VALUES; RETURN '0/1'; END $$;
	DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = %I, pg_catalog', current_database(),
		current_schema()); END $$`

func TestRepeatedDeliveryIsOneEventAndOneJob(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.exec(countMessages)
	d.inbox = d.anotherInbox() // finds our function before PostgreSQL's
	d.receive("evt_1")
	for range 3 {
		if receipt := d.receive("evt_1"); receipt != Duplicate {
			t.Fatalf("repeated, it is %#v", receipt)
		}
	}
	d.want(1, 1)
	if err := d.inbox.MarkProcessed(t.Context(), "evt_1", "resolved"); err != nil {
		t.Fatal(err)
	}
	if receipt := d.receive("evt_1"); receipt != Duplicate {
		t.Fatalf("repeated after it was processed, it is %#v", receipt)
	}
	if n := d.count("SELECT count(*) FROM messages"); n != 4 {
		t.Errorf("%d of 4 duplicates have something to be acknowledged", n)
	}
	d.receive("evt_2")
	d.want(2, 2)
}

// Those that arrive together share a statement. Each must be told what came of its own event.
func TestEachOfAGroupIsToldOfItsOwnEvent(t *testing.T) {
	t.Parallel()
	d := setup(t)
	var group []Event
	want := []bool{true, false, true, false, false, true}
	for i, id := range []string{"EVT_9", "evt-1", "evt_1", "evt_10", "evt_2", "evt_B"} { // as Group sorts them
		if group = append(group, d.event(id)); !want[i] {
			d.receive(id)
		}
	}
	first, err := d.inbox.store(t.Context(), group)
	if diff := cmp.Diff(want, first); err != nil || diff != "" {
		t.Errorf("%v; the first deliveries are others (-want +got):\n%s", err, diff)
	}
	d.want(6, 6)
}

// fullQueue has the database refuse the job of evt_full.
const fullQueue = "PERFORM 1 / (length(NEW.args ->> 'eventId') - length('evt_full'))"

const divisionByZero = "22012"

func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == divisionByZero
}

func TestEventThatCannotBeEnqueuedIsNotStored(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.beforeJob(fullQueue)
	receipt, err := d.inbox.Receive(t.Context(), d.event("evt_full"))
	if !refused(err) || receipt != "" {
		t.Fatalf("%#v, %v", receipt, err)
	}
	d.want(0, 0)
	d.beforeJob("NULL")
	if receipt := d.receive("evt_full"); receipt != Received {
		t.Fatalf("sent again, it is %#v", receipt)
	}
	d.want(1, 1)
}

func TestEventIsSeenOnlyTogetherWithItsJob(t *testing.T) {
	t.Parallel()
	d := setup(t)
	release := d.holdJobs()
	done := d.inBackground(d.inbox, "evt_1")
	pgtest.AwaitLock(t, d.pool)
	d.want(0, 0)
	release()
	if o := wait.For(t, "the commit", done); o.err != nil {
		t.Fatal(o.err)
	}
	d.want(1, 1)
}

func TestDuplicateThatArrivesMeanwhileWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"which commits": true, "which is taken back": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			first := pgtest.Begin(t, d.pool)
			pgtest.Exec(t, first, "INSERT INTO webhook_events (id, sent_at, body) VALUES ('evt_1', now(), '')")
			second := d.inBackground(d.inbox, "evt_1")
			pgtest.AwaitLock(t, d.pool)
			end, jobs := first.Rollback, 1
			if commits {
				end, jobs = first.Commit, 0
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			o := wait.For(t, "the end of the second", second)
			if duplicate := o.receipt == Duplicate; o.err != nil || duplicate != commits {
				t.Fatalf("the second is %#v, %v", o.receipt, o.err)
			}
			d.want(1, jobs)
		})
	}
}

func TestManyDeliveriesAtOnceAreOneEvent(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const deliveries = 12
	var done []<-chan outcome
	for range deliveries {
		done = append(done, d.inBackground(d.inbox, "evt_1"))
	}
	received := 0
	for _, c := range done {
		o := wait.For(t, "a delivery", c)
		if o.err != nil {
			t.Fatal(o.err)
		}
		if o.receipt == Received {
			received++
		}
	}
	if received != 1 {
		t.Errorf("%d deliveries were the first", received)
	}
	d.want(1, 1)
}

// A commit whose acknowledgement is lost has happened all the same, and the sender need not know.
func TestLostAcknowledgementIsResolvedByReading(t *testing.T) {
	t.Parallel()
	d := setup(t)
	lost := d.proxy.On("StoreEvents", pgproxy.DropAcknowledgement)
	if receipt := d.receive("evt_1"); receipt != Received {
		t.Fatalf("%#v", receipt)
	}
	lost.Await(t)
	d.want(1, 1)
}

func TestReadingIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		failures int
		stored   bool
	}{"two fail": {2, true}, "all fail": {3, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			d.proxy.On("StoreEvents", pgproxy.DropAcknowledgement)
			reading := d.proxy.OnNext(row.failures, "GetEvent", pgproxy.CutBefore)
			receipt, err := d.inbox.Receive(t.Context(), d.event("evt_1"))
			for range row.failures {
				reading.Await(t)
			}
			if row.stored && (err != nil || receipt != Received) || !row.stored && !postgres.Unavailable(err) {
				t.Fatalf("%#v, %v", receipt, err)
			}
			if row.stored {
				return
			}
			// The sender was told to come back, and does.
			if receipt := d.receive("evt_1"); receipt != Duplicate {
				t.Fatalf("sent again, it is %#v", receipt)
			}
			d.want(1, 1)
		})
	}
}

func TestCommitThatNeverArrivedIsAnError(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_0") // That another event is stored says nothing of this one.
	d.proxy.On("StoreEvents", pgproxy.CutBefore)
	receipt, err := d.inbox.Receive(t.Context(), d.event("evt_1"))
	if !postgres.Unavailable(err) || receipt != "" {
		t.Fatalf("%#v, %v", receipt, err)
	}
	if receipt := d.receive("evt_1"); receipt != Received {
		t.Fatalf("sent again, it is %#v", receipt)
	}
	d.want(2, 2)
}

// What it is a duplicate of may have come in the same transaction.
func TestDuplicateWhoseAcknowledgementIsLostIsResolvedByReading(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_1")
	d.proxy.On("StoreEvents", pgproxy.DropAcknowledgement)
	if receipt := d.receive("evt_1"); receipt == "" {
		t.Fatal("there is no receipt")
	}
	if n := d.proxy.Sent("GetEvent"); n != 1 {
		t.Errorf("%d readings", n)
	}
	d.want(1, 1)
}

func TestSenderThatHasGoneLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	ctx, hangUp := context.WithCancel(t.Context())
	release := d.holdJobs()
	done := make(chan error, 1)
	go func() {
		_, err := d.inbox.Receive(ctx, d.event("evt_1"))
		done <- err
	}()
	pgtest.AwaitLock(t, d.pool)
	hangUp()
	if err := wait.For(t, "the end", done); err == nil {
		t.Fatal("stored without a commit")
	}
	release()
	wait.Until(t, "the end of what was sent", func() bool {
		return d.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0
	})
	if e, j := d.count("SELECT count(*) FROM webhook_events"), d.count(countJobs); e != j {
		t.Fatalf("%d events and %d jobs", e, j)
	}
}

func TestDatabaseRefusesWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for name, row := range map[string]struct{ id, constraint string }{
		"no id": {"", "webhook_events_id_check"}, "a space in the id": {"a b", "webhook_events_id_check"},
		"a long body": {"evt_long", "webhook_events_body_check"},
	} {
		e := d.event(row.id)
		if row.id == "evt_long" {
			e.Body = make([]byte, 1<<20+1)
		}
		_, err := d.inbox.Receive(t.Context(), e)
		if !postgres.Violates(err, row.constraint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.want(0, 0)
	for name, values := range map[string]string{
		"processed, but not how": "now(), NULL", "how, but not when": "NULL, 'resolved'",
	} {
		_, err := d.pool.Exec(t.Context(), `INSERT INTO webhook_events (id, sent_at, body, processed_at, result)
			VALUES ('evt_1', now(), '', `+values+`)`)
		if !postgres.Violates(err, "webhook_events_result_iff_processed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
