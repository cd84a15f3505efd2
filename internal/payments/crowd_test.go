package payments

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
)

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// What the first one finds may be older than those who come while it looks. So they look again, one of them for all.
func TestThoseWhoComeDuringALookShareTheNextOne(t *testing.T) {
	t.Parallel()
	c := crowds{looks: map[asked]*look{}}
	what, other := asked{ref: numbered(1)}, asked{ref: numbered(1), fingerprint: idempotency.Fingerprint{1}}
	first, leads := c.join(what)
	if !leads || first.begins != nil {
		t.Fatalf("nobody looks, and it leads: %v, it waits for %v", leads, first.begins)
	}
	if l, leads := c.join(other); !leads || l == first {
		t.Fatal("another request with the key is answered as this one is")
	}
	next, leads := c.join(what)
	if !leads || next == first || closed(next.begins) {
		t.Fatal("a request that comes during a look is answered by it, or does not wait for its end")
	}
	if l, leads := c.join(what); leads || l != next {
		t.Fatal("two requests that come during a look do not share the next one")
	}
	c.end(what, first)
	if !closed(next.begins) || closed(next.ends) {
		t.Fatal("the next look does not begin when the first has ended")
	}
	late, leads := c.join(what)
	if !leads || late == next {
		t.Fatal("a request is answered by a look that has begun before it came")
	}
	c.end(what, next)
	if !closed(next.ends) || !closed(late.begins) {
		t.Fatal("the end of a look is not told")
	}
	c.end(what, late)
	c.end(other, c.looks[other])
	if len(c.looks) != 0 {
		t.Fatalf("%d looks are left", len(c.looks))
	}
}

// An equal request has looked, and reserved the key, or failed, or panicked.
func TestRequestIsAnsweredByTheLookOfAnEqualOne(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		looks func(*look)
		want  error
	}{
		"reserved": {func(l *look) { l.answer = InFlight{} }, nil},
		"failed":   {func(l *look) { l.err = broken }, broken},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := crowdedService()
			r := idempotency.Reservation{Ref: numbered(1)}
			what := asked{ref: r.Ref}
			first, _ := s.crowds.join(what)
			next, _ := s.crowds.join(what)
			answered := make(chan look, 1)
			go func() {
				_, _, answer, err := s.look(t.Context(), r, nil)
				answered <- look{answer: answer, err: err}
			}()
			synctest.Wait()
			s.crowds.end(what, first)
			c.looks(next)
			s.crowds.end(what, next)
			if got := <-answered; !errors.Is(got.err, c.want) || (got.answer == nil) != (c.want != nil) {
				t.Errorf("%s: answered %+v", name, got)
			}
		})
	}
}

// One request may get no connection. The others do not get its error: one of them looks again.
func TestErrorOfABusyDatabaseIsNotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := crowdedService()
		r := idempotency.Reservation{Ref: numbered(1)}
		what := asked{ref: r.Ref}
		first, _ := s.crowds.join(what)
		next, _ := s.crowds.join(what)
		looks := make(chan bool, 1)
		go func() {
			defer func() { looks <- recover() != nil }() // There is no database, so a request that looks panics.
			_, _, _, _ = s.look(t.Context(), r, nil)
		}()
		synctest.Wait()
		s.crowds.end(what, first)
		next.err = &postgres.UnavailableError{Op: "get a connection", Err: context.DeadlineExceeded}
		s.crowds.end(what, next)
		if !<-looks {
			t.Error("it is told the error of another request")
		}
	})
}

// crowdedService has no database.
func crowdedService() *Service {
	return &Service{crowds: crowds{looks: map[asked]*look{}}, metrics: telemetry.NewMetrics(prometheus.NewRegistry())}
}

// Two requests come while the first one looks, which executes nothing. One of them executes the key then, and the other
// is told so.
func TestOneOfThoseWhoCameExecutesAndTheOtherIsToldSo(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").failed()
	c := s.keys.NewReservation(g.reservation.Ref, g.reservation.Fingerprint, uuid.Must(uuid.NewV7()),
		uuid.Must(uuid.NewV7()))
	what, crowds := asked{c.Ref, c.Fingerprint}, &s.service.crowds
	first, _ := crowds.join(what)
	won := make(chan *idempotency.Lease, 1)
	go func() {
		lease, _, _, err := s.service.look(t.Context(), c, g.again())
		if err != nil {
			t.Error(err)
		}
		won <- lease
	}()
	leads := func() bool {
		crowds.mu.Lock()
		defer crowds.mu.Unlock()
		return first.next != nil
	}
	for !leads() {
		runtime.Gosched()
	}
	other, _ := crowds.join(what)
	crowds.end(what, first)
	if lease := <-won; lease == nil || lease.Attempt != 2 {
		t.Errorf("the one that leads has %+v", lease)
	}
	if told := is[InFlight](t, other.answer); other.err != nil || told.Resource == nil {
		t.Errorf("the other is told %+v, %v", told, other.err)
	}
}

// A panic leaves nobody waiting, and the key free for those who come.
func TestPanicInALookIsAnErrorForTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := crowdedService()
		r := idempotency.Reservation{Ref: numbered(1)}
		what := asked{ref: r.Ref}
		first, _ := s.crowds.join(what)
		failed := make(chan error, 2)
		for range 2 {
			go func() {
				defer func() {
					if recover() != nil {
						failed <- nil
					}
				}()
				_, _, _, err := s.look(t.Context(), r, nil) // There is no database, so the one that leads panics.
				failed <- err
			}()
		}
		synctest.Wait()
		s.crowds.end(what, first)
		if one, two := <-failed, <-failed; !errors.Is(errors.Join(one, two), errNoLook) || one != nil && two != nil {
			t.Errorf("they are told %v and %v", one, two)
		}
		if len(s.crowds.looks) != 0 {
			t.Errorf("%d looks are left", len(s.crowds.looks))
		}
	})
}

// A time that is over ends the wait for an equal request.
func TestLookThatTakesTooLongIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := crowdedService()
		r := idempotency.Reservation{Ref: numbered(1)}
		s.crowds.join(asked{ref: r.Ref})
		s.crowds.join(asked{ref: r.Ref})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, _, err := s.look(ctx, r, nil); !postgres.Unavailable(err) {
			t.Errorf("told %v", err)
		}
	})
}
