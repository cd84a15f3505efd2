package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

func stall(d time.Duration) func(*gateway.Limits) {
	return func(l *gateway.Limits) { l.Stall = d }
}

const (
	streamHead  = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
	streamSized = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
	line        = "canary-line\n"
)

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

func TestStreamOfAnotherStatusIsNotRead(t *testing.T) {
	t.Parallel()
	for _, status := range []int{201, 204, 206, 302, 401, 404, 410, 429, 500, 503} {
		err := newClient(t, answering(t, status, strings.Repeat(line, 3)).URL).stream(func(string) {
			t.Errorf("an answer with %d is read", status)
		})
		if !errors.Is(err, wire.StatusError(status)) {
			t.Errorf("error %v, want that of %d", err, status)
		}
	}
}
