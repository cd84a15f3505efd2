package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/tracing"
)

func TestRetryHasTheKeyLookedUpAtOnceWithAFreshBudget(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_ok")
	o.exec("UPDATE idempotency_keys SET lookup_failures = 12, reconcile_after = clock_timestamp() + interval '1 hour'")
	o.done(decision(l, deadletters.Retry))
	if !scan[bool](o, "SELECT lookup_failures = 0 AND reconcile_after <= clock_timestamp() FROM idempotency_keys") {
		t.Error("the key is not due, or its failures still count")
	}
	c := o.show(l.ID)
	if last := c.Timeline[len(c.Timeline)-1]; c.Key != idempotency.UnknownStatus || last.Actor != "operator" {
		t.Errorf("key is %s, last line %+v", c.Key, last)
	}
}

func TestRetryDoesAgainWhatTheDeadLetterIsAbout(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	h := &hooks{}
	o.with(h.use)
	aboutKey := o.about(deadletters.JobDiscarded, `{"jobId": 9007199254740993}`)
	late := o.about(deadletters.LateAfterExpiry, `{"source": "scan", "record": `+record+`}`)
	for _, row := range []struct {
		deadLetter deadletters.DeadLetter
		want       string
	}{
		{alone(deadletters.JobDiscarded, `{"jobId": 42, "kind": "resolve"}`), "job 42"},
		{aboutKey, "job 9007199254740993"},
		{alone(deadletters.WebhookUnmatched, `{"eventId": "msg_1"}`), "event msg_1"},
		{alone(deadletters.UnknownMovement, `{"source": "scan", "record": `+record+`}`), "record ch_7"},
		{late, "record ch_7"},
	} {
		h.calls = nil
		o.done(decision(o.put(row.deadLetter), deadletters.Retry))
		if diff := cmp.Diff([]string{row.want}, h.calls); diff != "" {
			t.Errorf("%s: %s", row.deadLetter.Kind, diff)
		}
	}
}

// The record came from another account, or from another PSP. The second judgement would not know from which.
func TestRecordOfAnotherAccountIsNotJudgedAgain(t *testing.T) {
	t.Parallel()
	o := setup(t)
	h := &hooks{}
	o.with(h.use)
	o.refused(decision(o.put(alone(deadletters.OtherAccount, record)), deadletters.Retry), judge.NotApplicable)
	if len(h.calls) != 0 {
		t.Errorf("calls are %q", h.calls)
	}
}

// ClaimDue makes jobs for an unknown key all the time. The job that was given up could meet another one in the queue.
func TestRetryOfAJobAboutAnUnknownKeyIsALookup(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.lost("pm_ok")
	h := &hooks{}
	o.with(h.use)
	o.done(decision(o.put(o.about(deadletters.JobDiscarded, `{"jobId": 42}`)), deadletters.Retry))
	if len(h.calls) != 0 || !scan[bool](o, "SELECT reconcile_after <= clock_timestamp() FROM idempotency_keys") {
		t.Errorf("calls are %q", h.calls)
	}
}

// The event outlives its job in the queue.
func TestJobOfAWebhookIsRetriedAndDismissedByItsEvent(t *testing.T) {
	t.Parallel()
	o := setup(t)
	h := &hooks{}
	o.with(h.use)
	given := alone(deadletters.JobDiscarded, `{"jobId": 42, "kind": "webhook", "args": {"eventId": "msg_1"}}`)
	o.done(decision(o.put(given), deadletters.Retry))
	other := alone(deadletters.JobDiscarded, `{"jobId": 43, "kind": "webhook", "args": {"eventId": "msg_2"}}`)
	o.done(decision(o.put(other), deadletters.Dismiss))
	if diff := cmp.Diff([]string{"event msg_1", "forgotten msg_2"}, h.calls); diff != "" {
		t.Error(diff)
	}
}

func TestRetryOfWhatIsQueuedIsRefused(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.with(func(c *Config) {
		c.Requeue = func(context.Context, pgx.Tx, int64) error { return fmt.Errorf("run: %w", deadletters.ErrQueued) }
	})
	o.refused(decision(o.put(alone(deadletters.JobDiscarded, `{"jobId": 42}`)), deadletters.Retry),
		judge.NotApplicable)
}

// An unknown key is looked up by its key, whatever record brought the dead letter about.
func TestRetryOfAnUnknownKeyIsALookup(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.lost("pm_ok")
	h := &hooks{}
	o.with(h.use)
	o.done(decision(o.put(o.about(deadletters.PSPContradicts, record)), deadletters.Retry))
	if len(h.calls) != 0 || !scan[bool](o, "SELECT reconcile_after <= clock_timestamp() FROM idempotency_keys") {
		t.Errorf("calls are %q", h.calls)
	}
}

func TestRetryWithNothingToTryAgainIsRefused(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	h := &hooks{}
	completed := o.put(o.about(deadletters.ContradictsCompleted, `{"source": "scan", "record": `+record+`}`))
	o.refused(decision(completed, deadletters.Retry), judge.NotApplicable) // nobody is there to resolve it again

	o.with(h.use)
	for _, l := range []deadletters.DeadLetter{
		o.about(deadletters.DuplicateMovement, `{}`),
		alone(deadletters.JobDiscarded, `{"jobId": "42"}`),
		alone(deadletters.JobDiscarded, `{}`),
		alone(deadletters.WebhookUnmatched, `{"eventId": ""}`),
		alone(deadletters.UnknownMovement, `{"record": {"id": "ch_7"}}`),
		alone(deadletters.MissingAtPSP, `[1]`),
	} {
		o.refused(decision(o.put(l), deadletters.Retry), judge.NotApplicable)
	}
	if len(h.calls) != 0 {
		t.Errorf("calls are %q", h.calls)
	}
	o.with(func(*Config) {})
	o.refused(decision(o.put(alone(deadletters.JobDiscarded, `{"jobId": 42}`)), deadletters.Retry),
		judge.NotApplicable)
	o.refused(decision(o.put(alone(deadletters.WebhookUnmatched, `{"eventId": "msg_1"}`)), deadletters.Retry),
		judge.NotApplicable)
	o.done(decision(o.put(alone(deadletters.JobDiscarded, `{"jobId": 43, "args": {"eventId": "msg_2"}}`)),
		deadletters.Dismiss))
	o.with(func(c *Config) {
		h.use(c)
		c.Reprocess, c.Requeue = nil, nil
	})
	o.refused(decision(o.put(alone(deadletters.WebhookUnmatched, `{"eventId": "msg_3"}`)), deadletters.Retry),
		judge.NotApplicable)
	if len(h.calls) != 0 {
		t.Errorf("calls are %q", h.calls)
	}
}

func TestRetryOfWhatIsGoneIsRefused(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.with(func(c *Config) {
		c.Requeue = func(context.Context, pgx.Tx, int64) error { return fmt.Errorf("find: %w", deadletters.ErrGone) }
	})
	o.refused(decision(o.put(alone(deadletters.JobDiscarded, `{"jobId": 42}`)), deadletters.Retry),
		judge.NotApplicable)
}

// What the retry does and the dead letter's resolution are one transaction.
func TestRetryThatFailsLeavesTheDeadLetterOpen(t *testing.T) {
	t.Parallel()
	o := setup(t)
	broken := errors.New("queue is full")
	o.with(func(c *Config) {
		c.Requeue = func(ctx context.Context, tx pgx.Tx, _ int64) error {
			if _, err := tx.Exec(ctx, "UPDATE tenants SET request_burst = 1"); err != nil {
				return err
			}
			return broken
		}
	})
	l := o.put(alone(deadletters.JobDiscarded, `{"jobId": 42}`))
	if _, err := o.ops.Resolve(t.Context(), decision(l, deadletters.Retry)); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	c := o.show(l.ID)
	if c.Status() != deadletters.OpenStatus || c.Version != 1 || len(c.AuditTrail) != 0 ||
		scan[int](o, "SELECT request_burst FROM tenants") == 1 {
		t.Fatalf("case is %+v", c)
	}
}

// A webhook that is still waiting would be processed, although an operator has dismissed it.
func TestDismissalThatCannotForgetItsWebhookFails(t *testing.T) {
	t.Parallel()
	o := setup(t)
	broken := errors.New("broken")
	o.with(func(c *Config) { c.Forget = func(context.Context, pgx.Tx, string) error { return broken } })
	l := o.put(alone(deadletters.JobDiscarded, `{"jobId": 42, "args": {"eventId": "msg_1"}}`))
	if _, err := o.ops.Resolve(t.Context(), decision(l, deadletters.Dismiss)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if c := o.show(l.ID); c.Resolution != nil {
		t.Errorf("case is %+v", c)
	}
}

// Who looks at the trace of a payment finds the operator's decision about it.
func TestDecisionIsInTheTraceOfItsPayment(t *testing.T) {
	t.Parallel()
	o := setup(t)
	sent := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent <- string(body)
	}))
	t.Cleanup(collector.Close)
	tracer, err := tracing.New(t.Context(), tracing.Config{Endpoint: collector.URL, Ratio: 1, Service: "test",
		Log: o.config.Log})
	if err != nil {
		t.Fatal(err)
	}
	o.with(func(c *Config) { c.Tracer = tracer })
	l := o.lost("pm_ok")
	o.done(decision(l, deadletters.Retry))
	o.done(decision(o.put(alone(deadletters.MissingAtPSP, `{}`)), deadletters.Dismiss)) // which has no payment
	tracer.Close()
	select {
	case spans := <-sent:
		if !strings.Contains(spans, "operator") || !strings.Contains(spans, string(l.Subject[:])) {
			t.Errorf("sent is %q", spans)
		}
	default:
		t.Error("nothing was sent")
	}
}
