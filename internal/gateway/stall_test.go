package gateway_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

func stall(d time.Duration) func(*gateway.Limits) {
	return func(l *gateway.Limits) { l.Stall = d }
}

const csvHead = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"

func TestStatementThatStallsEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		delivered int
		serve     func(c *net.TCPConn)
	}{
		"no answer":         {0, func(c *net.TCPConn) { readRequest(c); hold(c) }},
		"no end of headers": {0, func(c *net.TCPConn) { readRequest(c); write(c, "HTTP/1.1 200 OK\r\n"); hold(c) }},
		"no body":           {0, func(c *net.TCPConn) { readRequest(c); write(c, csvHead); hold(c) }},
		"no end of the body": {1, func(c *net.TCPConn) {
			readRequest(c)
			write(c, csvHead+header+chargeLine+
				"rf_1")
			hold(c)
		}},
		"whole, but no close": {2, func(c *net.TCPConn) { readRequest(c); write(c, csvHead+statement); hold(c) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, listen(t, row.serve).url, stall(time.Second))
			ids, err := c.statement()
			if err == nil || err.Error() != "read statement: no byte in time" || len(ids) != row.delivered {
				t.Fatalf("delivered %v, error %v", ids, err)
			}
		})
	}
}

// A long statement outlasts the time that any other answer has, and its own stall limit, as long as bytes come. A busy
// machine may hold them up for a while, so the limit is six times the pause.
func TestStatementHasNoTotal(t *testing.T) {
	t.Parallel()
	const pause, pauses = 500 * time.Millisecond, 8
	const limit = 6 * pause
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		end := fmt.Sprintf("total,%d,,,,,,,\r\n", pauses)
		write(c, fmt.Sprintf(csvSized, len(header)+pauses*len(chargeLine)+len(end))+header)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for range pauses {
			<-tick.C
			write(c, chargeLine)
		}
		write(c, end)
	})
	c := newClient(t, l.url, stall(limit), total(time.Millisecond))
	began := time.Now()
	ids, err := c.statement()
	if err != nil || len(ids) != pauses {
		t.Fatalf("delivered %v, error %v", ids, err)
	}
	if took := time.Since(began); took <= limit {
		t.Fatalf("it took %s: nothing was tried", took)
	}
}

const csvSized = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"

// What is done with a record takes as long as it takes: the PSP has not stalled.
func TestSlowReaderIsNotAStall(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	taken := make(chan struct{})
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		write(c, fmt.Sprintf(csvSized, len(statement))+header+chargeLine)
		<-taken
		write(c, refundLine+trailer)
	})
	c := newClient(t, l.url, stall(limit))
	var ids []string
	err := c.Statement(t.Context(), "canary-account", noon, func(r gateway.Record) error {
		if ids = append(ids, r.ID); len(ids) == 1 {
			<-time.NewTimer(2 * limit).C
			close(taken)
		}
		return nil
	})
	if err != nil || len(ids) != 2 {
		t.Fatalf("delivered %v, error %v", ids, err)
	}
}

func TestStatementEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	l := listen(t, func(c *net.TCPConn) { readRequest(c); write(c, csvHead+header+chargeLine); hold(c) })
	c := newClient(t, l.url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := c.Statement(ctx, "canary-account", noon, func(gateway.Record) error { cancel(); return nil })
	if err == nil || err.Error() != "read statement: line 3: ended by the caller" {
		t.Fatalf("error %v", err)
	}
	if n := c.InFlight(); n != 0 {
		t.Fatalf("%d places are held", n)
	}
}

func TestStatementThatIsCutIsIncomplete(t *testing.T) {
	t.Parallel()
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, row := range map[string]struct {
		delivered int
		reason    string
		serve     func(c *net.TCPConn)
	}{
		"before the headers": {0, "connection lost", func(c *net.TCPConn) { readRequest(c) }},
		"by length": {1, "line 3: connection lost",
			func(c *net.TCPConn) { readRequest(c); write(c, csvHead+header+chargeLine) }},
		"before the last chunk": {2, "line 5: connection lost", func(c *net.TCPConn) {
			readRequest(c)
			write(c, fmt.Sprintf("%s%x\r\n%s\r\n", chunked, len(statement), statement))
		}},
		"without a stated end": {1, "ends without its trailer", func(c *net.TCPConn) {
			readRequest(c)
			write(c, "HTTP/1.1 200 OK\r\n\r\n"+header+chargeLine)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken(t, newClient(t, listen(t, row.serve).url), row.delivered, row.reason)
		})
	}
}

// Sixty thousand lines (5 MB) pass through, and next to nothing is kept. Not parallel: it looks at the heap of all.
func TestLongStatementPassesThrough(t *testing.T) {
	const lines, block = 60_000, 1000
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		write(c, "HTTP/1.1 200 OK\r\n\r\n"+header)
		text := strings.Repeat(chargeLine, block)
		for range lines / block {
			write(c, text)
		}
		write(c, fmt.Sprintf("total,%d,,,,,,,\r\n", lines))
	})
	c := newClient(t, l.url)
	n := 0
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	err := c.Statement(t.Context(), "canary-account", noon, func(gateway.Record) error {
		if n++; n == lines {
			runtime.GC()
			runtime.ReadMemStats(&now)
		}
		return nil
	})
	if err != nil || n != lines {
		t.Fatalf("%d lines, error %v", n, err)
	}
	if kept := int64(now.HeapAlloc) - int64(before.HeapAlloc); kept > 2<<20 {
		t.Fatalf("%d bytes are kept of a statement", kept)
	}
}
