package webhooks

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/e2e/pgproxy"
	"payonce/internal/postgres"
)

func TestEventIsKeptToTheByteWithOneJob(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for id, body := range map[string][]byte{
		"evt_1": []byte("{ \"a\" : 1 }\r\n"), "evt_2": {0, 0xff, '\\'}, "evt_empty": {}, "!~": []byte("short id"),
		"evt_large": make([]byte, 64<<10),
	} {
		receipt, err := d.inbox.Receive(t.Context(), Event{ID: id, SentAt: d.sent, Body: body})
		if err != nil || receipt != (Received{}) {
			t.Fatalf("%s: %#v, %v", id, receipt, err)
		}
		stored, err := d.inbox.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		want := Stored{ID: id, SentAt: d.sent, ReceivedAt: stored.ReceivedAt, Body: body}
		stored.SentAt = stored.SentAt.UTC()
		if diff := cmp.Diff(want, stored); diff != "" || stored.ReceivedAt.IsZero() {
			t.Errorf("%s is kept otherwise (-want +got):\n%s", id, diff)
		}
		if n := d.count("SELECT count(*) FROM jobs WHERE event_id = $1", id); n != 1 {
			t.Errorf("%s has %d jobs", id, n)
		}
	}
	d.want(5, 5)
}

func TestEventWithoutABodyIsKept(t *testing.T) {
	t.Parallel()
	d := setup(t)
	if _, err := d.inbox.Receive(t.Context(), Event{ID: "evt_1", SentAt: d.sent}); err != nil {
		t.Fatal(err)
	}
	d.want(1, 1)
}

func TestRepeatedDeliveryIsOneEventAndOneJob(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_1")
	for range 3 {
		if receipt := d.receive("evt_1"); receipt != (Duplicate{}) {
			t.Fatalf("repeated, it is %#v", receipt)
		}
	}
	d.want(1, 1)
	if err := d.inbox.MarkProcessed(t.Context(), "evt_1", "settled"); err != nil {
		t.Fatal(err)
	}
	if receipt := d.receive("evt_1"); receipt != (Duplicate{}) {
		t.Fatalf("repeated after it was processed, it is %#v", receipt)
	}
	d.receive("evt_2")
	d.want(2, 2)
}

func TestEventThatCannotBeEnqueuedIsNotStored(t *testing.T) {
	t.Parallel()
	d := setup(t)
	full := errors.New("the queue is full")
	d.enqueue = func(string) error { return full }
	receipt, err := d.inbox.Receive(t.Context(), d.event("evt_1"))
	if wantErr(t, err, full); receipt != nil {
		t.Fatalf("and yet %#v", receipt)
	}
	d.want(0, 0)
	d.enqueue = func(string) error { return nil }
	if receipt := d.receive("evt_1"); receipt != (Received{}) {
		t.Fatalf("sent again, it is %#v", receipt)
	}
	d.want(1, 1)
}

func TestEventIsSeenOnlyTogetherWithItsJob(t *testing.T) {
	t.Parallel()
	d := setup(t)
	job := d.proxy.On("Enqueue", pgproxy.HoldAfter)
	done := d.inBackground(d.inbox, "evt_1")
	job.Await(t)
	d.want(0, 0)
	job.Release()
	if o := await(t, "the commit", done); o.err != nil {
		t.Fatal(o.err)
	}
	d.want(1, 1)
}

func TestDuplicateThatArrivesMeanwhileWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{"which commits": nil, "which is taken back": errors.New("the queue is full")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			stored, goOn := make(chan struct{}), make(chan struct{})
			var enqueued atomic.Int64
			d.enqueue = func(string) error {
				if enqueued.Add(1) > 1 {
					return nil
				}
				close(stored)
				<-goOn
				return refused
			}
			first := d.inBackground(d.inbox, "evt_1")
			await(t, "the first", stored)
			second := d.inBackground(d.anotherInbox(), "evt_1")
			d.awaitLockWait()
			close(goOn)
			one, two := await(t, "the end of the first", first), await(t, "the end of the second", second)
			if !errors.Is(one.err, refused) || two.err != nil {
				t.Fatalf("%v, %v", one.err, two.err)
			}
			if _, duplicate := two.receipt.(Duplicate); duplicate != (refused == nil) {
				t.Fatalf("the second is %#v", two.receipt)
			}
			d.want(1, 1)
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
		o := await(t, "a delivery", c)
		if o.err != nil {
			t.Fatal(o.err)
		}
		if _, first := o.receipt.(Received); first {
			received++
		}
	}
	if received != 1 {
		t.Errorf("%d deliveries were the first", received)
	}
	d.want(1, 1)
}

// A commit whose acknowledgement is lost has happened all the same, and the sender need not know.
func TestLostAcknowledgementIsSettledByReading(t *testing.T) {
	t.Parallel()
	d := setup(t)
	lost := d.proxy.On("commit", pgproxy.DropAcknowledgement)
	if receipt := d.receive("evt_1"); receipt != (Received{}) {
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
			d.proxy.On("commit", pgproxy.DropAcknowledgement)
			reading := d.proxy.OnNext(row.failures, "EventIsStored", pgproxy.CutBefore)
			receipt, err := d.inbox.Receive(t.Context(), d.event("evt_1"))
			for range row.failures {
				reading.Await(t)
			}
			if row.stored && (err != nil || receipt != (Received{})) || !row.stored && !postgres.Unavailable(err) {
				t.Fatalf("%#v, %v", receipt, err)
			}
			if row.stored {
				return
			}
			// The sender was told to come back, and does.
			if receipt := d.receive("evt_1"); receipt != (Duplicate{}) {
				t.Fatalf("sent again, it is %#v", receipt)
			}
			d.want(1, 1)
		})
	}
}

func TestCommitThatNeverArrivedIsAnError(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.proxy.On("commit", pgproxy.CutBefore)
	receipt, err := d.inbox.Receive(t.Context(), d.event("evt_1"))
	if !postgres.Unavailable(err) || receipt != nil {
		t.Fatalf("%#v, %v", receipt, err)
	}
	if receipt := d.receive("evt_1"); receipt != (Received{}) {
		t.Fatalf("sent again, it is %#v", receipt)
	}
	d.want(1, 1)
}

// Nothing of ours was at stake: there is no doubt to settle.
func TestDuplicateStaysOneWhenItsCommitIsLost(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_1")
	d.proxy.On("commit", pgproxy.CutBefore)
	if receipt := d.receive("evt_1"); receipt != (Duplicate{}) {
		t.Fatalf("%#v", receipt)
	}
	if n := d.proxy.Sent("EventIsStored"); n != 0 {
		t.Errorf("%d readings", n)
	}
}

func TestStoreThatIsAwayIsSaidToBe(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.proxy.Down()
	_, err := d.inbox.Receive(t.Context(), d.event("evt_1"))
	if !postgres.Unavailable(err) {
		t.Fatal(err)
	}
	d.want(0, 0)
}

func TestSenderThatHasGoneLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	ctx, hangUp := context.WithCancel(t.Context())
	d.enqueue = func(string) error { hangUp(); return nil }
	if _, err := d.inbox.Receive(ctx, d.event("evt_1")); err == nil {
		t.Fatal("stored without a commit")
	}
	d.want(0, 0)
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
			e.Body = make([]byte, 64<<10+1)
		}
		_, err := d.inbox.Receive(t.Context(), e)
		if !postgres.Violates(err, row.constraint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.want(0, 0)
}
