package httpproxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payonce/test/httpproxy"
)

// patience bounds every wait. Reaching it is a failure.
const patience = time.Minute

const told = "the whole answer of the service"

type bundle struct {
	proxy *httpproxy.Proxy
	done  *atomic.Int32 // what has happened at the service
	ctx   context.Context
}

func setup(t *testing.T) bundle { return setupPatient(t, 0) }

// setupPatient has a proxy with a patience. The service never answers a call that is named silence.
func setupPatient(t *testing.T, patient time.Duration) bundle {
	t.Helper()
	b := bundle{done: &atomic.Int32{}}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b.done.Add(1)
		if r.URL.Path == "/silence" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("X-Was", r.Header.Get("X-Is"))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, told+string(body))
	}))
	t.Cleanup(service.Close)
	var err error
	b.proxy, err = httpproxy.Open(httpproxy.Options{
		Upstream: func() string { return service.Listener.Addr().String() },
		Name:     func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") },
		Patience: patient,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.proxy.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	b.ctx = ctx
	return b
}

type heard struct {
	status int
	body   string
	err    error
}

// call asks the service, on a connection of its own.
func (b bundle) call(ctx context.Context, name string) heard {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.proxy.URL()+"/"+name, strings.NewReader("!"))
	if err != nil {
		return heard{err: err}
	}
	req.Header.Set("X-Is", "as it was")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return heard{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if res.StatusCode == http.StatusCreated && res.Header.Get("X-Was") != "as it was" {
		return heard{status: -1}
	}
	return heard{res.StatusCode, string(body), err}
}

func (b bundle) callInBackground(ctx context.Context, name string) <-chan heard {
	c := make(chan heard, 1)
	go func() { c <- b.call(ctx, name) }()
	return c
}

func TestCallThatMeetsNothingPasses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.On("other", httpproxy.CutBefore)
	if h := b.call(b.ctx, "pay"); h.status != http.StatusCreated || h.body != told+"!" || h.err != nil {
		t.Fatalf("the program heard %+v", h)
	}
	if b.proxy.Seen("pay") != 1 || b.proxy.Seen("other") != 0 {
		t.Fatal("the call was not counted")
	}
}

// What a person holds is not ended, and what nobody holds is.
func TestCallWithoutAnAnswerEndsAfterThePatience(t *testing.T) {
	t.Parallel()
	b := setupPatient(t, 100*time.Millisecond)
	held := b.proxy.On("pay", httpproxy.HoldAfter)
	pay := b.callInBackground(b.ctx, "pay")
	if err := held.Reached(b.ctx); err != nil {
		t.Fatal(err)
	}
	if h := b.call(b.ctx, "silence"); h.err == nil || b.ctx.Err() != nil {
		t.Errorf("a call that nobody answers has ended with %+v", h)
	}
	held.Release()
	if h := <-pay; h.status != http.StatusCreated {
		t.Errorf("a call that was held for longer has ended with %+v", h)
	}
}

func TestEachActionFailsAtItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		do     httpproxy.Action
		status int
		fails  bool
		done   int32
	}{
		{"cut before", httpproxy.CutBefore, 0, true, 0},
		{"fail before", httpproxy.FailBefore, http.StatusInternalServerError, false, 0},
		{"cut after", httpproxy.CutAfter, 0, true, 1},
		{"half after", httpproxy.HalfAfter, http.StatusCreated, true, 1},
		{"fail after", httpproxy.FailAfter, http.StatusInternalServerError, false, 1},
		{"refuse after", httpproxy.RefuseAfter, http.StatusBadRequest, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.proxy.On("pay", c.do)
			h := b.call(b.ctx, "pay")
			if h.status != c.status || (h.err != nil) != c.fails || strings.HasPrefix(h.body, told) {
				t.Errorf("the program heard %+v", h)
			}
			if err := e.Reached(b.ctx); err != nil {
				t.Error(err)
			}
			if n := b.done.Load(); n != c.done {
				t.Errorf("it happened %d times, want %d", n, c.done)
			}
			if h := b.call(b.ctx, "pay"); h.status != http.StatusCreated || h.err != nil {
				t.Errorf("an event for one call has met two: %+v", h)
			}
		})
	}
}

func TestCallHeldBeforeTheServiceLandsThoughItsSenderIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.proxy.On("pay", httpproxy.HoldBefore)
	ctx, hangUp := context.WithCancel(b.ctx)
	answer := b.callInBackground(ctx, "pay")
	if err := e.Reached(b.ctx); err != nil {
		t.Fatal(err)
	}
	hangUp()
	if h := <-answer; h.err == nil || b.done.Load() != 0 {
		t.Fatalf("the program heard %+v; it happened %d times", h, b.done.Load())
	}
	e.Release()
	if err := e.Landed(b.ctx); err != nil || b.done.Load() != 1 {
		t.Fatalf("%v; it happened %d times", err, b.done.Load())
	}
}

// The service is made to wait for the cut: a call that the cut had ended would not be done.
func TestServiceGoesOnWhenItsCallerIsCutOffDuringTheCall(t *testing.T) {
	t.Parallel()
	goOn, done := make(chan struct{}), make(chan error, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-goOn
		done <- r.Context().Err()
	}))
	t.Cleanup(service.Close)
	b := setup(t)
	proxy, err := httpproxy.Open(httpproxy.Options{
		Upstream: func() string { return service.Listener.Addr().String() },
		Name:     func(*http.Request) string { return "pay" },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	b.proxy = proxy
	e := proxy.On("pay", httpproxy.CutDuring)
	answer := b.callInBackground(b.ctx, "pay")
	if err := e.Reached(b.ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case h := <-answer:
		t.Fatalf("the program heard %+v before it was cut off", h)
	default:
	}
	e.Release()
	if h := <-answer; h.err == nil {
		t.Errorf("the program heard %+v", h)
	}
	close(goOn)
	if err := e.Landed(b.ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the cut has ended the call at the service: %v", err)
	}
}

func TestAnswerHeldAfterTheServiceIsOfWhatHasHappened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.proxy.On("pay", httpproxy.HoldAfter)
	answer := b.callInBackground(b.ctx, "pay")
	if err := e.Reached(b.ctx); err != nil || b.done.Load() != 1 {
		t.Fatalf("%v; it happened %d times", err, b.done.Load())
	}
	select {
	case h := <-answer:
		t.Fatalf("the program heard %+v", h)
	default:
	}
	e.Release()
	if h := <-answer; h.body != told+"!" {
		t.Fatalf("the program heard %+v", h)
	}
}

func TestDownRefusesConnectionsUntilItIsRestored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.Down()
	b.proxy.Down()
	if h := b.call(b.ctx, "pay"); h.err == nil {
		t.Fatalf("the program heard %+v", h)
	}
	for range 2 {
		if err := b.proxy.Restore(); err != nil {
			t.Fatal(err)
		}
	}
	if h := b.call(b.ctx, "pay"); h.status != http.StatusCreated {
		t.Fatalf("the program heard %+v", h)
	}
}

func TestChosenCallsFail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.Choose(func(c httpproxy.Call) httpproxy.Action {
		if c.Name == "pay" && string(c.Body) == "!" {
			return httpproxy.FailBefore
		}
		return httpproxy.HoldBefore // which nobody would release
	})
	if h := b.call(b.ctx, "pay"); h.status != http.StatusInternalServerError {
		t.Fatalf("the program heard %+v", h)
	}
	if h := b.call(b.ctx, "ask"); h.status != http.StatusCreated {
		t.Fatalf("the program heard %+v", h)
	}
}

func TestHeldCallEndsAsItIsReleased(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		hold, do httpproxy.Action
		status   int
		fails    bool
		done     int32
	}{
		{"cut before", httpproxy.HoldBefore, httpproxy.CutBefore, 0, true, 0},
		{"fail before", httpproxy.HoldBefore, httpproxy.FailBefore, http.StatusInternalServerError, false, 0},
		{"cut after", httpproxy.HoldAfter, httpproxy.CutAfter, 0, true, 1},
		{"fail after", httpproxy.HoldAfter, httpproxy.FailAfter, http.StatusInternalServerError, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.proxy.On("pay", c.hold)
			answer := b.callInBackground(b.ctx, "pay")
			if err := e.Reached(b.ctx); err != nil {
				t.Fatal(err)
			}
			e.ReleaseAs(c.do)
			e.Release() // it has ended already
			if h := <-answer; h.status != c.status || (h.err != nil) != c.fails {
				t.Errorf("the program heard %+v", h)
			}
			if n := b.done.Load(); n != c.done {
				t.Errorf("it happened %d times, want %d", n, c.done)
			}
		})
	}
}

func TestForgottenEventMeetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.Forget(b.proxy.On("pay", httpproxy.FailBefore))
	if h := b.call(b.ctx, "pay"); h.status != http.StatusCreated {
		t.Errorf("the program heard %+v", h)
	}
}

// Go's transport would send a call with a key and without a body again by itself, if its connection was used before.
func TestCallIsPassedOnOnceThoughTheServiceHangsUp(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hangs-up" {
			return
		}
		arrived.Add(1)
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = connection.Close()
		}
	}))
	t.Cleanup(service.Close)
	proxy, err := httpproxy.Open(httpproxy.Options{Upstream: func() string { return service.Listener.Addr().String() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	client := &http.Transport{}
	t.Cleanup(client.CloseIdleConnections)
	post := func(path string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy.URL()+path,
			io.NopCloser(strings.NewReader(""))) // The client itself must not send it twice, either.
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "a-key")
		res, err := client.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	if err := post("/answers"); err != nil {
		t.Fatal(err)
	}
	if err := post("/hangs-up"); err == nil || arrived.Load() != 1 {
		t.Errorf("the service has got it %d times: %v", arrived.Load(), err)
	}
}
