package e2e

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A stream of the console has no end, so it has no limit for reading its request. A client that promises a body and
// never sends it must still meet one. Otherwise the client keeps a connection open, signed in or not. The listener
// has 256 of them, and /livez needs one.
func TestPromisedBodyDoesNotHoldAStream(t *testing.T) {
	t.Parallel()
	b := setup(t).browse(func(s *http.Server) { s.ReadTimeout = time.Second })
	var all sync.WaitGroup
	for _, header := range []string{"", "Authorization: Bearer " + operatorKey + "\r\n"} {
		all.Go(func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(b.base, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			const want = "HTTP/1.1 200 OK"
			if _, err := io.WriteString(c,
				"GET /console/live HTTP/1.1\r\nHost: x\r\n"+header+"Content-Length: 10\r\n\r\n"); err != nil {
				t.Error(err)
			}
			answer := make([]byte, len(want))
			if _, err := io.ReadFull(c, answer); err != nil || string(answer) != want {
				t.Errorf("with %q: answered %q, %v", header, answer, err)
			}
		})
	}
	all.Wait()
}
