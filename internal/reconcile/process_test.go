package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/webhooks"
	"payonce/test/pgtest"
)

// strange is a movement at the PSP for which nobody has asked.
func strange() gateway.Moved {
	return gateway.Moved{Type: "charge.succeeded", Record: gateway.Record{
		Object: gateway.ChargeObject, ID: "ch_strange", Account: "acct_acme", Key: "key-of-nobody",
		Reference:   "pay_none",
		AmountMinor: 12000, Currency: "USD", Status: gateway.StatusSucceeded, Created: time.Now().UTC(),
	}}
}

// process works the job of an event whose PSP says this.
func (c *crew) process(ctx context.Context, id string, says func() (gateway.Event, error)) error {
	c.r.PSPs = gateway.PSPs{native.Name: told{says: says}}
	job := &river.Job[webhookArgs]{JobRow: &rivertype.JobRow{}, Args: webhookArgs{EventID: id}}
	return c.r.processWebhook(ctx, job)
}

func says(e gateway.Event, err error) func() (gateway.Event, error) {
	return func() (gateway.Event, error) { return e, err }
}

// An operator reads in the event's row what came of it. Only an event about money, or one that nobody understands, is a
// case.
func TestEventIsMarkedWithWhatCameOfIt(t *testing.T) {
	t.Parallel()
	c := setupMerchant(t)
	reg := c.atWork()
	want := ""
	for _, row := range []struct {
		id, result string
		event      gateway.Event
		err        error
	}{
		{"evt_1", "ignored", gateway.Ignored{Type: "payout.paid", Reason: "event of another type"}, nil},
		{"evt_2", "dead_letter", strange(), nil},
		{"evt_3", "dead_letter", nil, gateway.ErrPayload},
		{"evt_4", "dead_letter", nil, gateway.ErrUnknownType},
	} {
		c.receive(row.id)
		if err := c.process(t.Context(), row.id, says(row.event, row.err)); err != nil {
			t.Errorf("%s: %v", row.id, err)
		}
		want += row.id + " " + row.result + ", "
	}
	var got, kinds string
	if err := c.pool.QueryRow(t.Context(), `SELECT string_agg(id || ' ' || coalesce(result, 'none') || ', ', '' ORDER BY id),
		(SELECT string_agg(kind, ' ' ORDER BY kind) FROM dead_letters) FROM webhook_events`).Scan(&got, &kinds); err != nil {
		t.Fatal(err)
	}
	if got != want || kinds != "unknown_movement webhook_unmatched webhook_unmatched" {
		t.Errorf("events are %s dead letters %s", got, kinds)
	}
	if diff := cmp.Diff(map[string]float64{"event": 1}, counted(t, reg, "payonce_psp_foreign_total")); diff != "" {
		t.Errorf("foreign events are counted otherwise (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"": 4}, counted(t, reg, "payonce_webhook_lag_seconds")); diff != "" {
		t.Errorf("the lag of these events is counted otherwise (-want +got):\n%s", diff)
	}
}

// The bytes of an event that nobody understands are for an operator: as JSON, or else as text.
func TestEventThatIsNoJSONIsKeptAsText(t *testing.T) {
	t.Parallel()
	c := setupMerchant(t)
	c.atWork()
	for body, kept := range map[string]string{`{"a": 1}`: "body", "<html>": "text"} {
		c.exec("TRUNCATE webhook_events")
		if _, err := c.r.Inbox.Receive(t.Context(), webhooks.Event{ID: "evt_" + kept, SentAt: time.Now(),
			Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		if err := c.process(t.Context(), "evt_"+kept, says(nil, gateway.ErrPayload)); err != nil {
			t.Fatal(err)
		}
		got := pgtest.Value[string](t, c.pool, "SELECT evidence ->> $1 FROM dead_letters WHERE finding = $2", kept,
			"webhook evt_"+kept)
		if got != body {
			t.Errorf("kept is %q, want %q", got, body)
		}
	}
}

// A job may run twice, and another process may be quicker. Then nothing is left to do, and no operator is called.
func TestEventThatIsGoneOrProcessedIsNoFailure(t *testing.T) {
	t.Parallel()
	c := setupMerchant(t)
	c.atWork()
	if err := c.process(t.Context(), "evt_pruned", deaf); err != nil {
		t.Errorf("pruned: %v", err)
	}
	c.receive("evt_1")
	meanwhile := func() (gateway.Event, error) {
		return gateway.Ignored{Type: "payout.paid"}, c.r.Inbox.MarkProcessed(t.Context(), "evt_1", "resolved")
	}
	if err := c.process(t.Context(), "evt_1", meanwhile); err != nil {
		t.Errorf("processed meanwhile: %v", err)
	}
	if err := c.process(t.Context(), "evt_1", deaf); err != nil {
		t.Errorf("processed before: %v", err)
	}
}

// The job runs again. If it ended as done, nobody would look at the event again.
func TestJobWhoseDatabaseGoesAwayIsNotDone(t *testing.T) {
	t.Parallel()
	c := setupMerchant(t)
	c.atWork()
	c.receive("evt_1")
	ended, end := context.WithCancel(t.Context())
	end()
	goingAway := func(e gateway.Event, err error) error {
		ctx, end := context.WithCancel(t.Context())
		return c.process(ctx, "evt_1", func() (gateway.Event, error) {
			end() // after the event was read
			return e, err
		})
	}
	for name, row := range map[string]struct {
		says string
		work func() error
	}{
		"marked":         {"mark webhook processed", func() error { return goingAway(gateway.Ignored{}, nil) }},
		"judged":         {"apply record of webhook", func() error { return goingAway(strange(), nil) }},
		"not understood": {"open dead letter", func() error { return goingAway(nil, gateway.ErrPayload) }},
		"a record": {"apply record", func() error {
			return c.r.judgeEvidence(ended, &river.Job[evidenceArgs]{
				Args: evidenceArgs{Record: strange().Record.Evidence()}})
		}},
		"a key": {"canceled", func() error {
			return c.r.lookUp(ended, &river.Job[lookupArgs]{Args: lookupArgs{Tenant: "acme",
				Operation: "POST /payments", Key: "order-0000000042", Generation: 1}})
		}},
		"a ledger": {"canceled", func() error {
			return c.r.scanLedger(ended, &river.Job[scanLedgerArgs]{
				Args: scanLedgerArgs{Account: "acct_acme", Object: "charge"}})
		}},
	} {
		if err := row.work(); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := errors.New("no randomness")
	c.r.NewID = func() (uuid.UUID, error) { return uuid.UUID{}, broken }
	if err := c.process(t.Context(), "evt_1", says(nil, gateway.ErrPayload)); !errors.Is(err, broken) {
		t.Errorf("a dead letter without an id: %v", err)
	}
	if results := pgtest.Value[int](t, c.pool, "SELECT count(result) FROM webhook_events"); results != 0 {
		t.Errorf("%d events have a result", results)
	}
}

// inboxOn is the inbox in the database of a pool.
func (c *crew) inboxOn(pool *pgxpool.Pool) *webhooks.Inbox {
	return webhooks.New(postgres.Wrap(pool, 20*time.Second), WebhookJob())
}

// atWork gives the crew what it needs to work the jobs of webhooks, lookups and scans. The registry has what it counts.
func (c *crew) atWork() *prometheus.Registry {
	c.t.Helper()
	return c.atWorkOn(postgres.Wrap(c.pool, 20*time.Second))
}

func (c *crew) atWorkOn(db *postgres.DB) *prometheus.Registry {
	c.t.Helper()
	reg := prometheus.NewRegistry()
	c.r.DB, c.r.Inbox = db, c.inboxOn(c.pool)
	c.r.NewID, c.r.Metrics = uuid.NewV7, telemetry.NewMetrics(reg)
	c.r.Keys = idempotency.New(c.r.DB, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour, GracePeriod: 90 * time.Second,
		FirstLookup: 5 * time.Second, Audit: 30 * 24 * time.Hour,
	}, time.Now)
	c.r.Payments = payments.New(payments.Config{
		DB: c.r.DB, Keys: c.r.Keys, PSPs: c.r.PSPs, NewID: uuid.NewV7, Metrics: c.r.Metrics, Log: c.r.Log,
		PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	c.r.Jitter = func() float64 { return 0 }
	return reg
}

// receive stores an event as the API does.
func (c *crew) receive(id string) {
	c.t.Helper()
	_, err := c.inboxOn(c.pool).Receive(c.t.Context(), webhooks.Event{ID: id, SentAt: time.Now(), Body: []byte("{}")})
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestDuplicateHasNoSecondJobAfterTheFirst(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.receive("evt_1")
	c.wantJobs("webhook", 1)
	c.exec(finish)
	c.receive("evt_1")
	c.wantJobs("webhook", 1)
}

// An earlier job may have looked for the event before the event came again. So it does not count.
func TestEventThatComesAgainHasAJobOfItsOwn(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.exec("DELETE FROM webhook_events")
	c.receive("evt_1")
	c.wantJobs("webhook", 2)
}

// The statement that stores an event writes its job and wakes the workers. River must do the same, but for the unique
// key: the event's row says already that there is one job.
func TestJobOfAnEventIsAsRiverWritesIt(t *testing.T) {
	t.Parallel()
	c := setup(t)
	listener, err := c.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Release()
	channel := pgtest.Value[string](t, c.pool, "SELECT current_schema() || '.river_insert'")
	pgtest.Exec(t, listener, "LISTEN "+pgx.Identifier{channel}.Sanitize())
	var woken []string
	for _, write := range []func(){
		func() { c.receive("evt_<1>") },
		func() {
			c.inTx(func(ctx context.Context, tx pgx.Tx) error {
				_, err := c.r.client.InsertTx(ctx, tx, webhookArgs{EventID: "evt_<1>"}, nil)
				return err
			})
		},
	} {
		write()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		told, err := listener.Conn().WaitForNotification(ctx)
		if err != nil {
			t.Fatalf("nobody is woken: %v", err)
		}
		woken = append(woken, strings.ReplaceAll(told.Payload, " ", ""))
	}
	if woken[0] != woken[1] {
		t.Errorf("the workers are woken by %s", woken)
	}
	jobs := pgtest.Value[string](t, c.pool, `SELECT string_agg(DISTINCT (to_jsonb(j)
		- '{id,created_at,scheduled_at,unique_key,unique_states}'::text[])::text, ' ') FROM river_job AS j`)
	c.wantJobs("webhook", 2)
	if strings.Count(jobs, "eventId") != 1 {
		t.Errorf("the jobs differ: %s", jobs)
	}
}
