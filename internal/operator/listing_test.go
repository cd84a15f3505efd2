package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	"payonce/internal/postgres"
	"payonce/internal/query"
)

// A read that takes too long is told apart from a database that does not answer: asking again does not help, and other
// filters do.
func TestListWithTooMuchToReadSaysSo(t *testing.T) {
	t.Parallel()
	o := setup(t)
	sleep := func(statement string) Page[int] {
		return func(ctx context.Context) (query.List[int], error) {
			var nothing any
			return query.List[int]{}, o.db.Reader().QueryRow(ctx, statement).Scan(&nothing)
		}
	}
	free := &Service{lists: make(chan struct{}, 1)}
	const short = 50 * time.Millisecond
	gone, hangUp := context.WithCancel(t.Context())
	hungUp := func(ctx context.Context) (query.List[int], error) {
		hangUp()
		return sleep("SELECT pg_sleep(60)")(ctx)
	}
	for name, row := range map[string]struct {
		ctx     context.Context
		longest time.Duration
		read    Page[int]
		tooMuch bool
	}{
		"the time is over": {t.Context(), short, sleep("SELECT pg_sleep(60)"), true},
		"PostgreSQL has stopped it": {t.Context(), time.Minute,
			sleep("SELECT pg_cancel_backend(pg_backend_pid())"), true},
		"the operator has gone":      {gone, time.Minute, hungUp, false},
		"the table is not there yet": {t.Context(), time.Minute, sleep("SELECT 1 FROM nothing"), false},
	} {
		_, err := bounded(free, row.longest, row.read)(row.ctx)
		if got := errors.Is(err, ErrTooMuch); err == nil || got != row.tooMuch {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := bounded(free, short, func(ctx context.Context) (query.List[int], error) {
		<-ctx.Done()
		return query.List[int]{Next: "all the same"}, nil
	})(t.Context())
	if err != nil || l.Next != "all the same" {
		t.Errorf("what was read at the last moment: %+v, %v", l, err)
	}
	_, err = bounded(free, time.Minute, sleep("SELECT 1 FROM nothing"))(t.Context())
	if !postgres.Unavailable(err) {
		t.Errorf("a table that is not there yet: %v", err)
	}
}

// A list that waits for its place has the same bound. An operator who has gone is not told anything.
func TestListThatGetsNoPlaceEnds(t *testing.T) {
	t.Parallel()
	taken := make(chan struct{})
	backstop := time.AfterFunc(10*time.Second, func() { <-taken })
	defer backstop.Stop()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for ctx, tooMuch := range map[context.Context]bool{t.Context(): true, gone: false} {
		_, err := bounded(&Service{lists: taken}, time.Millisecond,
			func(context.Context) (query.List[int], error) { return query.List[int]{}, nil })(ctx)
		if got := errors.Is(err, ErrTooMuch); err == nil || got != tooMuch {
			t.Errorf("too much is %t, want %t: %v", got, tooMuch, err)
		}
	}
}
