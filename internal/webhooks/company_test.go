package webhooks

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
)

// company is an inbox with one lane, and deliveries that wait for it to share the next transaction.
func company(d *desk) *Inbox {
	return d.inboxSharing(postgres.Sharing{Lanes: 1, Parties: 16})
}

// together delivers the events in one transaction, while the lane is taken by another.
func (d *desk) together(i *Inbox, ids ...string) []outcome {
	d.t.Helper()
	goOn := d.beforeJob
	release := d.holdJobs()
	first := d.inBackground(i, "evt_first")
	d.awaitLockWait()
	d.beforeJob = goOn
	var done []<-chan outcome
	for n, id := range ids {
		done = append(done, d.inBackground(i, id))
		d.eventually("wait for the lane", func() bool { _, waiting := i.db.Lanes(); return waiting == n+1 })
	}
	release()
	if o := await(d.t, "the first", first); o.err != nil {
		d.t.Fatal(o.err)
	}
	var outcomes []outcome
	for _, c := range done {
		outcomes = append(outcomes, await(d.t, "a delivery", c))
	}
	return outcomes
}

func TestWebhookIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.receive("evt_0") // prepares the statements
	before := d.proxy.RoundTrips()
	d.receive("evt_1")
	d.receive("evt_1")
	if n := d.proxy.RoundTrips() - before; n != 2 {
		t.Errorf("%d round trips for two deliveries", n)
	}
}

func TestDeliveriesThatComeTogetherShareOneRoundTrip(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, o := range d.together(company(d), "evt_c", "evt_a", "evt_b") {
		if o.err != nil || o.receipt != (Received{}) {
			t.Fatalf("%#v, %v", o.receipt, o.err)
		}
	}
	if n := d.proxy.Sent("StoreEvent"); n != 2 {
		t.Errorf("%d transactions, want that of the first and one more", n)
	}
	d.want(4, 4)
}

// The row of the event is there for both, and is this transaction's own. Only one has stored it.
func TestSecondDeliveryInOneTransactionHasNoJob(t *testing.T) {
	t.Parallel()
	d := setup(t)
	wantOneOfEach(t, d.together(company(d), "evt_1", "evt_1"))
	if n := d.proxy.Sent("StoreEvent"); n != 2 {
		t.Fatalf("%d transactions: the two were not together", n)
	}
	d.want(2, 2)
}

// One of them is to blame, and each hears of its own: what the common try has told is forgotten.
func TestDeliveryThatFailsTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.beforeJob = fullQueue
	outcomes := d.together(company(d), "evt_1", "evt_1", "evt_full")
	wantOneOfEach(t, outcomes[:2])
	if full := outcomes[2]; !refused(full.err) || full.receipt != nil {
		t.Errorf("%#v, %v", full.receipt, full.err)
	}
	d.want(2, 2)
}

func wantOneOfEach(t *testing.T, outcomes []outcome) {
	t.Helper()
	received := 0
	for _, o := range outcomes {
		if o.err != nil {
			t.Fatal(o.err)
		}
		if o.receipt == (Received{}) {
			received++
		}
	}
	if received != 1 {
		t.Fatalf("%d were the first: %#v", received, outcomes)
	}
}

// A bundle has called it a duplicate of one that was rolled back with it.
func TestReceiptIsThatOfTheLastTry(t *testing.T) {
	t.Parallel()
	d := setup(t)
	var receipt Receipt
	for _, want := range []Receipt{Received{}, Duplicate{}, Received{}} {
		tx, err := d.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := &pgx.Batch{}
		if want == (Duplicate{}) {
			b.Queue("INSERT INTO webhook_events (id, sent_at, body) VALUES ('evt_1', now(), '')")
		}
		d.inbox.queueStore(b, d.event("evt_1"), &receipt)
		if err := errors.Join(postgres.SendTx(t.Context(), tx, b), tx.Rollback(t.Context())); err != nil || receipt != want {
			t.Fatalf("%#v, %v, want %#v", receipt, err, want)
		}
	}
}
