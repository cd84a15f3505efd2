package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/telemetry"
)

// What River says of cancelled statements while it is stopped is expected. Everything else it says is for an operator.
func TestOnlyCancelledStatementsAreLeftOutOfTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attr   slog.Attr
		logged bool
	}{
		"a cancelled statement":          {slog.Any("err", fmt.Errorf("query: %w", context.Canceled)), false},
		"the text of one":                {slog.String("err", "query: context canceled"), false},
		"an error that only says so":     {slog.Any("err", errors.New("not our context canceled")), true},
		"another error":                  {slog.Any("err", errors.New("no such table")), true},
		"a statement that took too long": {slog.Any("err", context.DeadlineExceeded), true},
		"another text":                   {slog.String("err", "context canceled by nobody"), true},
		"a number":                       {slog.Int("jobs", 7), true},
	} {
		for _, attrs := range [][]any{{c.attr}, {slog.Int("n", 1), c.attr}, {c.attr, slog.Int("n", 1)}} {
			var out bytes.Buffer
			slog.New(stopping{slog.NewTextHandler(&out, nil)}).Error("job failed", attrs...)
			if logged := out.Len() > 0; logged != c.logged {
				t.Errorf("%s, %v: logged %t", name, attrs, logged)
			}
		}
	}
}

// The last attempt of a job is an error, because an operator gets a dead letter. A scheduled job comes again anyway.
func TestOnlyTheLastAttemptOfAJobIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempt, most int
		want          string
	}{
		"first":               {1, scheduledAttempts + 1, "level=WARN"},
		"last but one":        {scheduledAttempts, scheduledAttempts + 1, "level=WARN"},
		"last":                {scheduledAttempts + 1, scheduledAttempts + 1, "level=ERROR"},
		"last of a scheduled": {scheduledAttempts, scheduledAttempts, "level=WARN"},
	} {
		var out bytes.Buffer
		errorsOf := jobErrors{slog.New(slog.NewTextHandler(&out, nil))}
		errorsOf.HandleError(t.Context(), &rivertype.JobRow{Kind: "webhook", Attempt: c.attempt, MaxAttempts: c.most},
			errors.New("broken"))
		if !bytes.Contains(out.Bytes(), []byte(c.want)) {
			t.Errorf("%s: %s, want %s", name, out.String(), c.want)
		}
	}
}

// An alert is about runs that fail. A run that has more to do has not failed.
func TestRunIsCountedAsWhatCameOfIt(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	o := &observer{r: &Reconciler{metrics: telemetry.NewMetrics(reg), now: time.Now}}
	for _, result := range []error{nil, river.JobSnooze(time.Second), errors.New("broken")} {
		err := o.Work(t.Context(), &rivertype.JobRow{Kind: "scan"}, func(context.Context) error { return result })
		if !errors.Is(err, result) {
			t.Errorf("%v has become %v", result, err)
		}
	}
	want := map[string]float64{"scan done": 2, "scan failed": 1}
	if diff := cmp.Diff(want, counted(t, reg, "payonce_job_duration_seconds")); diff != "" {
		t.Errorf("runs are counted otherwise (-want +got):\n%s", diff)
	}
}
