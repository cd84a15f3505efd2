package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A key that another call has sent is not Unused, whatever this call was told.
func TestCallsForOneIntentWorkOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, problem(401, "unauthenticated"), reply{status: reset}, reply{status: 201})
		var second sync.WaitGroup
		var otherErr error
		b.onSend = func() {
			b.onSend = nil
			second.Go(func() { _, otherErr = b.client.Pay(patiently(t, 10*time.Millisecond), order) })
			synctest.Wait()
			if n := b.attempts(t); n != 1 {
				t.Errorf("%d attempts at the same time", n)
			}
		}
		_, err := b.client.Pay(t.Context(), order)
		var refused *RefusedError
		if !errors.As(err, &refused) || !refused.Untouched {
			t.Errorf("the first call: %v", err)
		}
		second.Wait()
		var unknown *UnknownError
		if !errors.As(otherErr, &unknown) || b.stored(t).State != Open {
			t.Errorf("the second call: %v, stored %+v", otherErr, b.stored(t))
		}
		b.restart(t)
		if results, errs := b.resumed(t.Context(), t); len(results) != 1 || errs[0] != nil || !results[0].Paid {
			t.Errorf("resumed %+v, %v", results, errs)
		}
	})
}

// slow is a Store that gives both of two concurrent calls the time to read.
type slow struct{ Store }

func (s slow) Create(ctx context.Context, fresh Record) (Record, error) {
	stored, err := s.Store.Create(ctx, fresh)
	return stored, errors.Join(err, sleep(ctx, time.Second)) // the bubble's time, not the wall's
}

func TestOneOfTwoCorrectionsIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, problem(400, "invalid_request"), reply{status: reset}, reply{status: 201})
		if _, err := b.client.Pay(t.Context(), order); err == nil {
			t.Fatal("it was not refused")
		}
		b.seen, b.script, b.client.config.Store = nil, b.script[1:], slow{b.journal}
		var calls sync.WaitGroup
		var errs [2]error
		for i := range errs {
			corrected := order
			corrected.AmountCents += int64(i) + 1
			calls.Go(func() { _, errs[i] = b.client.Pay(t.Context(), corrected) })
		}
		calls.Wait()
		b.attempts(t)
		if changed := errors.Is(errs[0], ErrIntentChanged); changed == errors.Is(errs[1], ErrIntentChanged) {
			t.Errorf("%v", errs)
		}
	})
}

func TestWaitingCallHonoursItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 201})
		b.onSend = func() {
			b.onSend = nil
			stopped, cancel := context.WithCancel(t.Context())
			cancel()
			for _, ctx := range []context.Context{stopped, patiently(t, time.Second), t.Context()} {
				_, err := b.client.Pay(ctx, order)
				var unknown *UnknownError
				if !errors.As(err, &unknown) || unknown.Attempts != 0 {
					t.Errorf("%v", err)
				}
			}
		}
		began := time.Now()
		result, err := b.client.Pay(patiently(t, time.Hour), order)
		if err != nil || !result.Paid || time.Since(began) != time.Second+defaultPatience || b.attempts(t) != 1 {
			t.Errorf("%+v, %v after %s and %d attempts", result, err, time.Since(began), len(b.seen))
		}
	})
}

// overtaken is a Store whose list is old by the time that Resume has it.
type overtaken struct {
	Store
	listed func()
}

func (o *overtaken) Unfinished(ctx context.Context) ([]Record, error) {
	open, err := o.Store.Unfinished(ctx)
	o.listed()
	return open, err
}

func TestResumeLeavesOutWhatHasEndedSinceTheList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: reset}, reply{status: 201})
		_, _ = b.client.Pay(patiently(t, time.Millisecond), order)
		b.client.config.Store = &overtaken{b.journal, func() {
			if _, err := b.client.Pay(t.Context(), order); err != nil {
				t.Error(err)
			}
		}}
		if results, errs := b.resumed(t.Context(), t); len(results) != 0 || b.attempts(t) != 2 {
			t.Errorf("resumed %+v, %v; %d attempts", results, errs, len(b.seen))
		}
	})
}
