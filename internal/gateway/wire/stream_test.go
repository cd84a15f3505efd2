package wire_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
	"payonce/test/wait"
)

func TestReadWithoutAListenerFails(t *testing.T) {
	t.Parallel()
	c := newClient(t, nobodyListens(t))
	_, err := c.read(most)
	failed(t, err, "no connection to the PSP")
	failed(t, c.stream(func(string) {}), "no connection to the PSP")
}

// The reader's own error counts, if the answer is whole.
func TestErrorOfTheReaderIsReturned(t *testing.T) {
	t.Parallel()
	errReader := errors.New("not understood")
	c := newClient(t, answering(t, 200, said).URL)
	refuse := func(io.Reader) error { return errReader }
	if err := c.Read(t.Context(), account, c.get, most, refuse); !errors.Is(err, errReader) {
		t.Fatalf("error %v", err)
	}
	if err := c.Stream(t.Context(), account, c.get, refuse); !errors.Is(err, errReader) {
		t.Fatalf("error %v", err)
	}
}

// An old copy of an empty list, from the cache of a proxy, would prove that nothing was charged.
func TestReadsAreNotServedFromACache(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Cache-Control") + " " + r.Header.Get("Accept-Encoding")
	})
	c := newClient(t, s.URL)
	if _, err := c.read(most); err != nil {
		t.Fatal(err)
	}
	if err := c.stream(func(string) {}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if header := wait.For(t, "the request", got); header != "no-cache " {
			t.Fatalf("asked with %q", header)
		}
	}
}

// A dialect refuses to ask about an account that it cannot name.
func TestRequestThatCannotBeBuiltIsNotSent(t *testing.T) {
	t.Parallel()
	s := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.RequestURI) })
	c := newClient(t, s.URL, func(l *gateway.Limits) { l.BreakerFailures = 1 })
	errBuild := errors.New("no such account")
	build := func(context.Context) (*http.Request, error) { return nil, errBuild }
	notSent(t, c.checked(c.Send(t.Context(), account, build)), "request could not be built")
	read := func(io.Reader) error { t.Error("nothing is read"); return nil }
	if err := c.Read(t.Context(), account, build, most, read); !errors.Is(err, errBuild) {
		t.Fatalf("error %v", err)
	}
	if err := c.Stream(t.Context(), account, build, read); !errors.Is(err, errBuild) {
		t.Fatalf("error %v", err)
	}
	if !c.Ready(account) || c.InFlight() != 0 {
		t.Fatalf("ready %t, %d in flight", c.Ready(account), c.InFlight())
	}
}

func TestOpenBreakerDoesNotStopReads(t *testing.T) {
	t.Parallel()
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, said)
	})
	c := newClient(t, s.URL, breaker(time.Hour))
	for range failures {
		c.post()
	}
	notSent(t, c.post(), "breaker open")
	if body, err := c.read(most); err != nil || body != said {
		t.Fatalf("body %q, error %v", body, err)
	}
	if err := c.stream(func(string) {}); err != nil {
		t.Fatal(err)
	}
	if c.Ready(account) {
		t.Fatal("reads have closed the breaker")
	}
}

func TestFailedReadsDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	c := newClient(t, listen(t, func(c *net.TCPConn) { readRequest(c); asked.Add(1) }).url, breaker(time.Hour))
	for range failures + 1 {
		_, err := c.read(most)
		failed(t, err, "connection lost")
		failed(t, c.stream(func(string) {}), "connection lost")
	}
	if !c.Ready(account) || asked.Load() != 2*(failures+1) {
		t.Fatalf("reads have opened the breaker, or were not all sent: %d", asked.Load())
	}
}

func TestReadsTakeAPlaceAmongThoseInFlight(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue = 1, soon })
	done := make(chan error, 1)
	go func() {
		_, err := c.read(most)
		done <- err
	}()
	wait.For(t, "the read", g.arrived)
	if n := c.InFlight(); n != 1 {
		t.Fatalf("%d in flight, want 1", n)
	}
	const full = wire.NoPlaceError("too many requests to the PSP in flight")
	_, err := c.read(most)
	if streamErr := c.stream(func(string) {}); !errors.Is(err, full) || !errors.Is(streamErr, full) {
		t.Fatalf("read: %v, stream: %v", err, streamErr)
	}
	notSent(t, c.post(), string(full))
	g.release <- http.StatusOK
	if err := wait.For(t, "the read's end", done); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the place's return", func() bool { return c.InFlight() == 0 })
}

// streamed is how many lines arrived.
func (c *client) streamed() (lines int, err error) {
	err = c.stream(func(string) { lines++ })
	return lines, err
}

func TestStreamThatStallsEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		lines int
		serve func(c *net.TCPConn)
	}{
		"no answer":         {0, func(c *net.TCPConn) { readRequest(c); hold(c) }},
		"no end of headers": {0, func(c *net.TCPConn) { readRequest(c); write(c, "HTTP/1.1 200 OK\r\n"); hold(c) }},
		"no body":           {0, func(c *net.TCPConn) { readRequest(c); write(c, streamHead); hold(c) }},
		"no end of the body": {2, func(c *net.TCPConn) {
			readRequest(c)
			write(c, streamHead+line+"half a li")
			hold(c)
		}},
		"whole, but no close": {2, func(c *net.TCPConn) { readRequest(c); write(c, streamHead+line+line); hold(c) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, err := newClient(t, listen(t, row.serve).url, stall(time.Second)).streamed()
			failed(t, err, "no byte in time")
			if lines != row.lines {
				t.Fatalf("%d lines, want %d", lines, row.lines)
			}
		})
	}
}

// Nobody may take the first half of a statement for the whole.
func TestReaderCannotHideThatItsStreamHasStalled(t *testing.T) {
	t.Parallel()
	l := listen(t, func(c *net.TCPConn) { readRequest(c); write(c, streamHead+line); hold(c) })
	c := newClient(t, l.url, stall(soon))
	ignore := func(r io.Reader) error { _, _ = io.ReadAll(r); return nil }
	failed(t, c.Stream(t.Context(), account, c.get, ignore), "no byte in time")
}

// A long stream outlasts the time that any other answer has, and its own stall limit, as long as bytes come. A busy
// machine may hold them up for a while, so the limit is six times the pause.
func TestStreamHasNoTotal(t *testing.T) {
	t.Parallel()
	const pause, pauses = 500 * time.Millisecond, 8
	const limit = 6 * pause
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		write(c, fmt.Sprintf(streamSized, pauses*len(line)))
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for range pauses {
			<-tick.C
			write(c, line)
		}
	})
	c := newClient(t, l.url, stall(limit), total(time.Millisecond))
	began := time.Now()
	lines, err := c.streamed()
	if err != nil || lines != pauses {
		t.Fatalf("%d lines, error %v", lines, err)
	}
	if took := time.Since(began); took <= limit {
		t.Fatalf("it took %s: nothing was tried", took)
	}
}

// What is done with a line takes as long as it takes: the PSP has not stalled.
func TestSlowReaderIsNotAStall(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	taken := make(chan struct{})
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		write(c, fmt.Sprintf(streamSized, 2*len(line))+line)
		<-taken
		write(c, line)
	})
	lines := 0
	err := newClient(t, l.url, stall(limit)).stream(func(string) {
		if lines++; lines == 1 {
			<-time.NewTimer(2 * limit).C
			close(taken)
		}
	})
	if err != nil || lines != 2 {
		t.Fatalf("%d lines, error %v", lines, err)
	}
}

func TestStreamEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	l := listen(t, func(c *net.TCPConn) { readRequest(c); write(c, streamHead+line); hold(c) })
	c := newClient(t, l.url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed(t, c.streamOf(ctx, func(string) { cancel() }), "ended by the caller")
	if n := c.InFlight(); n != 0 {
		t.Fatalf("%d places are held", n)
	}
}

func TestStreamThatIsCutIsIncomplete(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		lines int
		serve func(c *net.TCPConn)
	}{
		"before the headers": {0, func(c *net.TCPConn) { readRequest(c) }},
		"by length":          {1, func(c *net.TCPConn) { readRequest(c); write(c, streamHead+line) }},
		"by a reset":         {0, func(c *net.TCPConn) { readRequest(c); write(c, "HTTP/1.1 200 OK\r\n"); reset(c) }},
		"before the last chunk": {1, func(c *net.TCPConn) {
			readRequest(c)
			write(c, fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(line), line))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, err := newClient(t, listen(t, row.serve).url).streamed()
			failed(t, err, "connection lost")
			if lines != row.lines {
				t.Fatalf("%d lines, want %d", lines, row.lines)
			}
		})
	}
}

// stream returns the lines of an answer that has no time limit as a whole.
func (c *client) stream(each func(line string)) error {
	return c.streamOf(c.t.Context(), each)
}

func (c *client) streamOf(ctx context.Context, each func(line string)) error {
	err := c.Stream(ctx, account, c.get, func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			each(lines.Text())
		}
		return lines.Err()
	})
	c.checkedError(err)
	return err
}
