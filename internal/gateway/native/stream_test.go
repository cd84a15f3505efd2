package native_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// What was delivered before the end counts as nothing: the statement has failed.
func TestStatementThatStallsEnds(t *testing.T) {
	t.Parallel()
	stall := func(l *gateway.Limits) { l.Stall = time.Second }
	for text, delivered := range map[string]int{"": 0, header + chargeLine + "rf_1": 1, statement: 2} {
		ids, err := newClient(t, hanging(t, text).URL, stall).statement()
		if err == nil || err.Error() != "read statement: no byte in time" || len(ids) != delivered {
			t.Errorf("delivered %v of %q, error %v", ids, text, err)
		}
	}
}

func TestStatementEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	c := newClient(t, hanging(t, header+chargeLine).URL)
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
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, row := range map[string]struct {
		delivered    int
		reason, text string
	}{
		"before the headers": {0, "connection lost", ""},
		"by length":          {1, "line 3: connection lost", ok + "Content-Length: 1000\r\n\r\n" + header + chargeLine},
		"before the last chunk": {2, "line 5: connection lost",
			fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", ok, len(statement), statement)},
		"without a stated end": {1, "ends without its trailer", ok + "\r\n" + header + chargeLine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken(t, newClient(t, raw(t, row.text).URL), row.delivered, row.reason)
		})
	}
}

// Sixty thousand lines (5 MB) pass through, and next to nothing is kept. Not parallel: it looks at the heap of all.
func TestLongStatementPassesThrough(t *testing.T) {
	const lines, block = 60_000, 1000
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, header)
		text := strings.Repeat(chargeLine, block)
		for range lines / block {
			_, _ = io.WriteString(w, text)
		}
		_, _ = fmt.Fprintf(w, "total,%d,,,,,,,\r\n", lines)
	})
	c := newClient(t, s.URL)
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
