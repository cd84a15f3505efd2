package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// observe measures a run of a job. It is a river.WorkerMiddlewareFunc.
func (r *Reconciler) observe(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	began := r.Now()
	err := work(ctx)
	result := "done"
	var snooze *river.JobSnoozeError // There is more to do. The run has not failed.
	if err != nil && !errors.As(err, &snooze) {
		result = "failed"
	}
	r.Metrics.JobRan(job.Kind, result, r.Now().Sub(began))
	return err
}

// stopping drops the errors that River logs while it is being stopped, because cancelled statements are expected then.
type stopping struct{ slog.Handler }

// Handle implements slog.Handler.
func (h stopping) Handle(ctx context.Context, r slog.Record) error {
	cancelled := false
	r.Attrs(func(a slog.Attr) bool {
		err, isErr := a.Value.Any().(error)
		cancelled = isErr && errors.Is(err, context.Canceled) ||
			a.Value.Kind() == slog.KindString && strings.HasSuffix(a.Value.String(), context.Canceled.Error())
		return !cancelled
	})
	if cancelled {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h stopping) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stopping{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h stopping) WithGroup(name string) slog.Handler { return stopping{h.Handler.WithGroup(name)} }

// jobErrors logs failed runs, without the arguments of the jobs, because these have keys in them. It is called for
// every attempt. When the last attempt has failed, a trigger opens the dead letter.
type jobErrors struct{ log *slog.Logger }

// HandleError implements river.ErrorHandler.
func (e *jobErrors) HandleError(ctx context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	level := slog.LevelWarn
	if job.Attempt >= job.MaxAttempts && job.MaxAttempts > scheduledAttempts {
		level = slog.LevelError
	}
	e.log.Log(ctx, level, "job failed", slog.String("kind", job.Kind), slog.Int64("job", job.ID),
		slog.Int("attempt", job.Attempt), slog.Any("error", err))
	return nil
}

// HandlePanic implements river.ErrorHandler.
func (e *jobErrors) HandlePanic(
	ctx context.Context, job *rivertype.JobRow, value any, trace string,
) *river.ErrorHandlerResult {
	e.log.ErrorContext(ctx, "job panicked", slog.String("kind", job.Kind), slog.Int64("job", job.ID),
		slog.Any("value", value), slog.String("trace", trace))
	return nil
}
