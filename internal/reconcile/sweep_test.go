package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// dueKeys are so many keys.
func dueKeys(n int) (due []idempotency.Due) {
	for i := range n {
		due = append(due, idempotency.Due{Generation: int32(i + 1),
			Ref: idempotency.StoredRef("acme", "POST /payments", "order-0000000042")})
	}
	return due
}

// A key that was taken without a lookup in the queue is hidden until it is due again.
func TestSweepEnqueuesWhatItTakesUntilThereIsNoMore(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.r.DB = postgres.Wrap(c.pool, 20*time.Second)
	errBroken := errors.New("broken")
	for name, row := range map[string]struct {
		batches []int // how many keys each search finds
		failed  error
		rounds  int
		jobs    int
	}{
		"nothing":          {[]int{0}, nil, 1, 0},
		"some":             {[]int{2}, nil, 1, 2},
		"a batch and some": {[]int{sweepBatch, 1}, nil, 2, sweepBatch + 1},
		"a batch exactly":  {[]int{sweepBatch, 0}, nil, 2, sweepBatch},
		"the search fails": {[]int{2}, errBroken, 1, 0},
	} {
		c.exec("DELETE FROM river_job")
		rounds, offset := 0, 0
		err := c.r.inBatches(t.Context(), func(context.Context, pgx.Tx) ([]idempotency.Due, error) {
			n := row.batches[min(rounds, len(row.batches)-1)]
			rounds++
			offset += n
			return dueKeys(offset)[offset-n:], row.failed
		})
		if !errors.Is(err, row.failed) || rounds != row.rounds {
			t.Errorf("%s: %d searches, %v", name, rounds, err)
		}
		c.wantJobs("resolve", row.jobs)
	}
}

// Committed or not, the keys and their lookups agree. So the next round goes on, and the run has not failed.
func TestSweepGoesOnAfterACommitThatIsInDoubt(t *testing.T) {
	t.Parallel()
	c := setup(t)
	reg := c.atWork()
	proxy := pgproxy.Start(t, c.pool.Config().ConnString())
	db := pgtest.Open(t, proxy.URL(), pgtest.Limits())
	c.r.DB = db
	lost := proxy.On("commit", pgproxy.DropAcknowledgement)
	rounds := 0
	err := c.r.inBatches(t.Context(), func(context.Context, pgx.Tx) ([]idempotency.Due, error) {
		rounds++
		return dueKeys(rounds)[rounds-1:], nil
	})
	lost.Await(t)
	if err != nil || rounds != 2 {
		t.Errorf("%d rounds, %v", rounds, err)
	}
	c.wantJobs("resolve", 2)
	if diff := cmp.Diff(map[string]float64{"": 1}, counted(t, reg, "payonce_commit_ambiguous_total")); diff != "" {
		t.Errorf("counted otherwise (-want +got):\n%s", diff)
	}
}

func TestQueueThatFailsIsNoSuccess(t *testing.T) {
	t.Parallel()
	c := setupMerchant(t)
	tx := pgtest.Begin(t, c.pool)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.r.enqueueTx(t.Context(), tx, dueKeys(1)); err == nil {
		t.Error("lookups are enqueued in a transaction that is over")
	}
	broken := &river.Job[evidenceArgs]{JobRow: &rivertype.JobRow{}, Args: evidenceArgs{Record: []byte("{")}}
	if err := c.r.judgeEvidence(t.Context(), broken); err == nil {
		t.Error("half a record is one")
	}
}

// told is a PSP whose events say what the test has them say.
type told struct {
	gateway.PSP

	says func() (gateway.Event, error)
}

func (p told) ParseEvent([]byte) (gateway.Event, error) { return p.says() }

var errDeaf = errors.New("not now")

func deaf() (gateway.Event, error) { return nil, errDeaf }

// An event that we do not understand may be about money. A read that fails is another matter: it is repeated.
func TestEventThatSaysNothingWeUnderstandIsForAnOperator(t *testing.T) {
	t.Parallel()
	c := setupMerchant(t)
	c.atWork()
	c.receive("evt_1")
	job := &river.Job[webhookArgs]{JobRow: &rivertype.JobRow{}, Args: webhookArgs{EventID: "evt_1"}}
	pool, outage := pgtest.WithOutage(t, c.pool)
	inbox := c.r.Inbox
	c.r.Inbox = c.inboxOn(pool)
	outage.On("name: GetEvent", 1)
	if err := c.r.processWebhook(t.Context(), job); err == nil {
		t.Error("an event that cannot be read is processed")
	}
	c.r.Inbox = inbox
	psps := c.r.PSPs
	c.r.PSPs = gateway.PSPs{native.Name: told{says: deaf}}
	if err := c.r.processWebhook(t.Context(), job); !errors.Is(err, errDeaf) {
		t.Errorf("an event that cannot be read now is processed: %v", err)
	}
	c.r.PSPs = psps
	for range 2 { // A job may run twice. The second time, nobody reads the event.
		if err := c.r.processWebhook(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		c.r.PSPs = gateway.PSPs{native.Name: told{says: deaf}}
	}
	found := pgtest.Value[string](t, c.pool, `SELECT count(*) || ' ' || min(kind) || ' ' || min(result)
		FROM dead_letters, webhook_events`)
	if found != "1 webhook_unmatched dead_letter" {
		t.Errorf("found %q", found)
	}
}

// backlog is a walk that has so many rows before it.
func backlog(rows *int64) Walk {
	return func(_ context.Context, limit int32) (int64, error) {
		n := min(*rows, int64(limit))
		*rows -= n
		return n, nil
	}
}

func TestPrunerKeepsItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, perSecond := range []int32{1, 100, 250, 5000, 20_000} {
			const all, longest = 1_000_000, 9500 * time.Millisecond
			long, short := int64(all), int64(0)
			began := time.Now()
			if err := Paced(t.Context(), perSecond, longest, backlog(&long), backlog(&short)); err != nil {
				t.Fatal(err)
			}
			// The first batch does not wait; each after it waits its time.
			batch := min(int64(perSecond), pruneBatch)
			want := batch * (1 + int64(longest)*int64(perSecond)/int64(time.Second)/batch)
			if off := all - long - want; off < -batch || off > batch {
				t.Errorf("at %d per second %d rows are gone, want %d", perSecond, all-long, want)
			}
			if took := time.Since(began); took > longest {
				t.Errorf("at %d per second it took %s", perSecond, took)
			}
		}
	})
}

// Batches that take longer than the pace allows make the run no longer.
func TestSlowPrunerEndsBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		slow := func(_ context.Context, limit int32) (int64, error) {
			<-time.NewTimer(time.Second).C
			return int64(limit), nil
		}
		if err := Paced(t.Context(), 5000, 9*time.Second, slow, slow); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestPrunerEndsWithItsWalks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		none, some := int64(0), int64(pruneBatch)
		calls, began := 0, time.Now()
		counted := func(ctx context.Context, limit int32) (int64, error) {
			calls++
			return backlog(&some)(ctx, limit)
		}
		if err := Paced(t.Context(), 5000, time.Minute, backlog(&none), counted); err != nil || calls != 2 {
			t.Errorf("%d batches, want one full and one empty: %v", calls, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("with nothing more to prune, it took %s", took)
		}
	})
}

func TestPrunerStopsWhenAWalkFailsOrItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		rows := int64(1_000_000)
		if err := Paced(t.Context(), 5000, time.Minute,
			func(context.Context, int32) (int64, error) { return 0, broken }, backlog(&rows)); !errors.Is(
			err, broken) || rows != 1_000_000 {
			t.Errorf("%v, %d rows left", err, rows)
		}
		told := errors.New("told to stop")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(told) })
		if err := Paced(ctx, 5000, time.Minute, backlog(&rows)); !errors.Is(err, told) {
			t.Errorf("told to stop in the middle: %v", err)
		}
	})
}

// A run that would begin where the last one did is not made at once: the two would chase each other.
func TestScanThatDoesNotGetOnWaits(t *testing.T) {
	t.Parallel()
	for progress, want := range map[Progress]time.Duration{GotOn: 0, Stalled: stalledPause} {
		var snooze *river.JobSnoozeError
		if err := nextRun(progress); !errors.As(err, &snooze) || snooze.Duration != want {
			t.Errorf("%s: %v, want a pause of %s", progress, err, want)
		}
	}
	if err := nextRun(ReachedEnd); err != nil || stalledPause < time.Second {
		t.Fatalf("at the end: %v; pauses for %s", err, stalledPause)
	}
}

// A page that is begun at the last moment may take as long as a PSP has for an answer, and then its records are
// resolved. And a dead run stands in the way of the next one: with a time of its own that is longer, the rescuer would
// leave it there for as long.
func TestScanHasTimeForItsLastPageAndIsTakenForDeadAsSoonAsAnyOtherJob(t *testing.T) {
	t.Parallel()
	got := longWorker[scanLedgerArgs]{longest: scanTimeout}.Timeout(nil)
	if got < scanReads+2*8*time.Second || got >= rescueAfter {
		t.Fatalf("a run that reads for %s has %s, and jobs are rescued after %s", scanReads, got, rescueAfter)
	}
}
