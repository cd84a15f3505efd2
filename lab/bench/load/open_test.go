package load_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"payonce/lab/bench/load"
)

// stalling answers its first request only after a while, and tells how long that has been. The others are answered at
// once.
func stalling(t *testing.T, while time.Duration) (*server, func() time.Duration) {
	t.Helper()
	var first atomic.Bool
	var stalled atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if first.CompareAndSwap(false, true) {
			began := time.Now()
			<-after(while)
			stalled.Store(int64(time.Since(began)))
		}
		w.WriteHeader(http.StatusCreated)
	})
	return s, func() time.Duration { return time.Duration(stalled.Load()) }
}

// With one connection, those that fall due during the stall are sent after it, and answered at once. Counted from their
// sending, nobody but the first would have waited.
func TestOpenLoopCountsFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	const schedule = 20 * time.Millisecond
	s, stalled := stalling(t, 10*schedule)
	r := run(t, s, load.Plan{Kind: load.New, Clients: 1, Rate: 1000, Requests: 20})
	clean(t, r)
	if least := stalled() - schedule; r.P50Micros < 0.99*float64(least.Microseconds()) {
		t.Fatalf("half were answered within %.0f µs; since they were due, it was more than %s", r.P50Micros, least)
	}
	if n := len(s.seen()); n != 20 || r.Requests != 20 {
		t.Fatalf("the server saw %d, counted are %d; want 20", n, r.Requests)
	}
}

// The closed loop is what the open one is compared with: it waits together with the server, and sees one slow answer.
func TestClosedLoopWaitsWithTheServer(t *testing.T) {
	t.Parallel()
	s, stalled := stalling(t, 200*time.Millisecond)
	r := run(t, s, load.Plan{Kind: load.New, Clients: 1, Requests: 20})
	clean(t, r)
	if whole := float64(stalled().Microseconds()); r.MaxMicros < whole || r.P50Micros >= whole {
		t.Fatalf("the slowest took %.0f µs and half at most %.0f, the stall was %.0f", r.MaxMicros, r.P50Micros, whole)
	}
}

func TestWhatFellDueAndFoundNoConnectionIsUnsent(t *testing.T) {
	t.Parallel()
	// Half a second, so that a busy machine sends the first one before the end.
	s, _ := stalling(t, 2*time.Second)
	r := run(t, s, load.Plan{Kind: load.New, Clients: 1, Rate: 20, Seconds: 0.5})
	if r.Requests != 1 || r.Unsent != 9 || len(s.seen()) != 1 {
		t.Fatalf("%d answered, %d unsent, the server saw %d; want 1, 9, 1", r.Requests, r.Unsent, len(s.seen()))
	}
}

func TestOpenLoopSendsAtItsRateOverAllConnections(t *testing.T) {
	t.Parallel()
	block, others := make(chan struct{}), make(chan struct{}, 100)
	var first atomic.Bool
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if first.CompareAndSwap(false, true) {
			<-block
		} else if others <- struct{}{}; len(others) == 30 {
			close(block) // all the others went past the one that is stuck
		}
		w.WriteHeader(http.StatusCreated)
	})
	r := run(t, s, load.Plan{Kind: load.New, Clients: 3, Rate: 500, Requests: 31})
	clean(t, r)
	if r.Requests != 31 {
		t.Fatalf("counted are %d, want 31", r.Requests)
	}
	if r.LateP99Micros <= 0 {
		t.Fatal("how late the clock was is not told")
	}
}

func TestUnexpectedAnswersAreCountedAndTheFirstIsQuoted(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 2:
			http.Error(w, "canary", http.StatusTooManyRequests)
		case 3:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	r := run(t, s, load.Plan{Kind: load.New, Clients: 1, Requests: 10})
	if r.Requests != 10 || r.Unexpected != 2 || r.Statuses[429] != 1 || r.Statuses[500] != 1 ||
		r.FirstUnexpected != "status 429: canary\n" {
		t.Fatalf("%+v", r)
	}
	n.Store(1)
	if r = run(t, s, load.Plan{Kind: load.New, Clients: 1, Requests: 2, Expect: []int{429, 500}}); r.Unexpected != 0 {
		t.Fatalf("what the plan expects is unexpected: %+v", r)
	}
}

func TestLostAnswerIsCountedAndTheClientGoesOn(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 2:
			panic(http.ErrAbortHandler)
		case 4:
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusCreated)
	})
	r := run(t, s, load.Plan{Kind: load.New, Clients: 1, Requests: 10})
	if r.Requests != 9 || r.Lost != 1 || r.Unexpected != 0 || r.FirstUnexpected != "no answer: EOF" {
		t.Fatalf("%+v", r)
	}
}
