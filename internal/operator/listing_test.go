package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	"payonce/internal/postgres"
)

// A read that takes too long is told apart from a database that does not answer: asking again does not help, and other
// filters do.
func TestListWithTooMuchToReadSaysSo(t *testing.T) {
	t.Parallel()
	o := setup(t)
	sleep := func(statement string) func(context.Context, int) (List[int], error) {
		return func(ctx context.Context, _ int) (List[int], error) {
			var nothing any
			return List[int]{}, o.db.Reader().QueryRow(ctx, statement).Scan(&nothing)
		}
	}
	free := make(chan struct{}, 1)
	places := func() chan struct{} { return free }
	const short = 50 * time.Millisecond
	gone, hangUp := context.WithCancel(t.Context())
	time.AfterFunc(short, hangUp)
	for name, row := range map[string]struct {
		ctx       context.Context
		longest   time.Duration
		statement string
		tooMuch   bool
	}{
		"the time is over":           {t.Context(), short, "SELECT pg_sleep(60)", true},
		"PostgreSQL has stopped it":  {t.Context(), time.Minute, "SELECT pg_cancel_backend(pg_backend_pid())", true},
		"the operator has gone":      {gone, time.Minute, "SELECT pg_sleep(60)", false},
		"the table is not there yet": {t.Context(), time.Minute, "SELECT 1 FROM nothing", false},
	} {
		_, err := bounded(row.longest, places, sleep(row.statement))(row.ctx, 1)
		if got := errors.Is(err, ErrTooMuch); err == nil || got != row.tooMuch {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := bounded(time.Minute, places, sleep("SELECT 1 FROM nothing"))(t.Context(), 1)
	if !postgres.Unavailable(err) {
		t.Errorf("a table that is not there yet: %v", err)
	}
}
