package wire_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Each status is an answer, with its headers. What it means is the dialect's.
func TestEachCompleteAnswerIsReturned(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 299, 300, 307, 400, 402, 404, 409, 422, 429, 499, 500, 503, 599, 999} {
		s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Test-Header", "its value")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, said)
		})
		r := newClient(t, s.URL).post()
		answered(t, r, status)
		if r.Header.Get("Test-Header") != "its value" {
			t.Errorf("headers %v", r.Header)
		}
	}
}

func TestAnswerMayHave64KiBAndNoMore(t *testing.T) {
	t.Parallel()
	fits := said + strings.Repeat(" ", 64<<10-len(said))
	for _, chunked := range []bool{false, true} {
		serve := func(body string) string {
			s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				if !chunked {
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				}
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, body)
			})
			return s.URL
		}
		if r := newClient(t, serve(fits)).post(); r.Status != http.StatusCreated || string(r.Body) != fits {
			t.Fatalf("status %d, %d bytes", r.Status, len(r.Body))
		}
		lost(t, newClient(t, serve(fits+" ")).post(), "answer longer than 65536 bytes")
	}
}

func TestAnswerWithoutAnEndIsCutOff(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"by connection": "HTTP/1.1 201 Created\r\n\r\n",
		"by length":     "HTTP/1.1 201 Created\r\nContent-Length: 9223372036854775807\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, func(c *net.TCPConn) {
				readRequest(c)
				write(c, head+said)
				endless(c, " ")
			})
			lost(t, newClient(t, l.url).post(), "answer longer than 65536 bytes")
		})
	}
}

func TestHeadersWithoutAnEndAreCutOffEarly(t *testing.T) {
	t.Parallel()
	const block = "X-More: 0123456789\r\n"
	written := make(chan int, 1)
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		_ = c.SetWriteBuffer(4 << 10)
		n, _ := io.WriteString(c, "HTTP/1.1 201 Created\r\n"+strings.Repeat(block, 256<<10))
		written <- n
	})
	lost(t, newClient(t, l.url).post(), "connection lost")
	// What the two sockets hold in their buffers counts as written, too.
	if n := await(t, "the end of the headers", written); n >= len(block)*256<<10 {
		t.Fatalf("the client took all %d bytes of headers", n)
	}
}

func TestClientRefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "psp", "psp:80", "ftp://psp", "//psp", "http://", "http://%zz", "http:/v1", "http://psp/v1",
		"http://psp?key=canary", "http://psp#canary",
		"http://canary@psp", "http://user:canary@psp", "http://user:canary@psp:port",
	} {
		_, err := wire.New("ITS_URL", url, testLimits(), nil)
		switch {
		case err == nil:
			t.Errorf("the URL %q is taken", url)
		case strings.Contains(err.Error(), "canary"):
			t.Errorf("the URL %q is repeated: %v", url, err)
		case !strings.HasPrefix(err.Error(), "ITS_URL "):
			t.Errorf("the setting is not named: %v", err)
		}
	}
	for url, base := range map[string]string{
		"http://psp": "http://psp", "https://psp/": "https://psp", "http://[::1]:8082": "http://[::1]:8082",
		"http://127.0.0.1:8082": "http://127.0.0.1:8082",
	} {
		c, err := wire.New("ITS_URL", url, testLimits(), nil)
		if err != nil || c.Base != base || c.Total() != patience {
			t.Errorf("the URL %q: %v", url, err)
		}
	}
	for name, edit := range map[string]func(*gateway.Limits){
		"dial":     func(l *gateway.Limits) { l.Dial = 0 },
		"total":    func(l *gateway.Limits) { l.Total = 0 },
		"queue":    func(l *gateway.Limits) { l.Queue = 0 },
		"stall":    func(l *gateway.Limits) { l.Stall = 0 },
		"inFlight": func(l *gateway.Limits) { l.InFlight = 0 },
		"failures": func(l *gateway.Limits) { l.BreakerFailures = 0 },
		"open":     func(l *gateway.Limits) { l.BreakerOpen = 0 },
	} {
		l := testLimits()
		edit(&l)
		if _, err := wire.New("ITS_URL", "http://psp", l, nil); err == nil {
			t.Errorf("a limit without %s is taken", name)
		}
	}
}
