package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Clients that are slow, or send too much, or never read. Each holds a connection for as long as its limit says; nobody
// else notices.

// drip is how long a slow client takes for a byte.
const drip = 20 * time.Millisecond

// hostile is a client that goes on until it is cut off.
type hostile struct {
	act  func(c net.Conn)
	want string // the answer's status; empty: whatever comes
}

// pours writes some text, and then one more over and over.
func pours(first, then string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.WriteString(c, first); err != nil || then == "" {
			return
		}
		for range 1 << 20 { // an end, should nobody cut it off
			if _, err := io.WriteString(c, then); err != nil {
				return
			}
		}
	}
}

// drips writes some text, and then one more, slowly, over and over.
func drips(first, then string) func(net.Conn) {
	return func(c net.Conn) {
		every := time.NewTicker(drip)
		defer every.Stop()
		for next := first; ; next = then {
			if _, err := io.WriteString(c, next); err != nil {
				return
			}
			<-every.C
		}
	}
}

func hostiles() map[string]hostile {
	const authorized = " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + acmeKey +
		"\r\nContent-Type: application/json\r\nIdempotency-Key: hostile-0123456789\r\n"
	const pay, chunked, anyone = "POST /payments" + authorized, "Transfer-Encoding: chunked\r\n\r\n", "POST /webhooks/psp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	stripe := strings.Replace(anyone, "/psp", "/stripe", 1)
	big := strings.Repeat("a", 32<<10)
	return map[string]hostile{
		"says nothing":            {pours("", ""), ""},
		"says nothing any more":   {pours("GET /docs HTTP/1.1\r\nHost: x\r\n\r\n", ""), "200"},
		"a header, byte by byte":  {drips("GET /payments HTTP/1.1\r\nX-Slow: ", "a"), ""},
		"headers, line by line":   {drips("GET /payments HTTP/1.1\r\nHost: x\r\n", "X: y\r\n"), ""},
		"a body, byte by byte":    {drips(pay+"Content-Length: 10000\r\n\r\n{", " "), "400"},
		"chunks, byte by byte":    {drips(pay+chunked, "1\r\n \r\n"), "400"},
		"a webhook, byte by byte": {drips(anyone+"Content-Length: 60000\r\n\r\n{", " "), "400"},
		"Stripe's, byte by byte":  {drips(stripe+"Content-Length: 60000\r\n\r\n{", " "), "400"},
		"promises a body":         {pours(pay+"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n", ""), "100"},
		"never reads":             {pours("", "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"), "-"},
		"a header of many MiB":    {pours("GET /payments HTTP/1.1\r\nHost: x\r\nX-Big: ", big), "431"},
		"a path of many MiB":      {pours("GET /payments?customerId=", big), "431"},
		"10 000 headers": {pours("GET /payments HTTP/1.1\r\nHost: x\r\n"+
			strings.Repeat("X-Small: 1\r\n", 10_000)+"\r\n", ""), "431"},
		"a body of a GiB":             {pours(pay+"Content-Length: 1073741824\r\n\r\n", big), "413"},
		"a body of a GiB, as nobody":  {pours("POST /payments HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n", big), "401"},
		"a webhook of a GiB":          {pours(anyone+"Content-Length: 1073741824\r\n\r\n", big), "413"},
		"Stripe's webhook of a GiB":   {pours(stripe+"Content-Length: 1073741824\r\n\r\n", big), "413"},
		"chunks without end":          {pours(pay+chunked, "8000\r\n"+big+"\r\n"), "413"},
		"many empty lines for a body": {pours(pay+chunked, "1\r\n\n\r\n"), "413"},
		"no chunk size":               {pours(pay+chunked+"zz\r\n{}\r\n0\r\n\r\n", ""), "400"},
		"a chunk beyond 64 bits":      {pours(pay+chunked+"FFFFFFFFFFFFFFFFF\r\n{}", ""), "400"},
		"a negative chunk":            {pours(pay+chunked+"-1\r\n{}", ""), "400"},
		"a chunk extension":           {pours(pay+chunked+"1;", big), "400"},
		"trailers without end":        {pours(pay+chunked+"2\r\n{}\r\n0\r\n", "X-Trailer: y\r\n"), "400"},
		"two lengths":                 {pours(pay+"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", ""), "400"},
		"a length and a plus":         {pours(pay+"Content-Length: +2\r\n\r\n{}", ""), "400"},
		"another coding":              {pours(pay+"Transfer-Encoding: gzip, chunked\r\n\r\n", ""), "501"},
		"TLS":                         {pours("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", ""), "400"},
		"HTTP/2":                      {pours("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", ""), "404"},
		"a thousand at once": {pours(strings.Repeat("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 1000), ""),
			"404"},
		"lines for ever": {pours("", "\r\n"), "400"},
	}
}

// hangUps tells when the server has closed a connection.
type hangUps struct {
	mu   sync.Mutex
	seen map[string]chan struct{}
}

func (h *hangUps) of(client string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[client] == nil {
		h.seen[client] = make(chan struct{})
	}
	return h.seen[client]
}

func (h *hangUps) moved(c net.Conn, state http.ConnState) {
	if state == http.StateClosed {
		close(h.of(c.RemoteAddr().String()))
	}
}

func TestHostileClientsAreCutOffWhileHonestOnesAreServed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for the limits of slow clients")
	}
	t.Parallel()
	w := setup(t, func(o *options) { o.settings = takesWebhooks })
	closed := hangUps{seen: map[string]chan struct{}{}}
	addr := w.served(func(s *http.Server) {
		s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = time.Second, 1500*time.Millisecond,
			3*time.Second, time.Second
		s.ConnState = closed.moved
	})
	var all sync.WaitGroup
	for name, h := range hostiles() {
		all.Go(func() { h.isCutOff(t, name, addr, &closed) })
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	honest, paid := *w, 0
	honest.api = &httptest.Server{URL: "http://" + addr}
	calm := time.NewTicker(drip)
	defer calm.Stop()
	for done := false; !done; paid++ {
		<-calm.C
		honest.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
		select {
		case <-over:
			done = true
		default:
		}
	}
	if n := w.count("SELECT count(*) FROM payments"); n != paid {
		t.Fatalf("%d payments, %d of them of honest clients", n, paid)
	}
	t.Logf("%d honest payments meanwhile", paid)
}

// isCutOff has a hostile client act, and waits for the server to hang up first.
func (h hostile) isCutOff(t *testing.T, name, addr string, closed *hangUps) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * patience)) // for the goroutines below, should the server never hang up
	var all sync.WaitGroup
	var answer bytes.Buffer
	if h.want != "-" {
		all.Go(func() { _, _ = io.Copy(&answer, c) })
	}
	all.Go(func() { h.act(c) })
	select {
	case <-closed.of(c.LocalAddr().String()):
	case <-time.After(patience):
		t.Errorf("%s: is not cut off", name)
	}
	if h.want != "-" {
		// What has been answered is still on its way.
		all.Wait()
	}
	_ = c.Close()
	all.Wait()
	if status, err := strconv.Atoi(h.want); err == nil && !strings.HasPrefix(answer.String(), "HTTP/1.1 "+h.want+" ") {
		t.Errorf("%s: answered %.100q, want %d", name, answer.String(), status)
	}
	if name == "a thousand at once" && strings.Count(answer.String(), "HTTP/1.1 404 ") != 1000 {
		t.Errorf("%s: %d were answered", name, strings.Count(answer.String(), "HTTP/1.1 404 "))
	}
}

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
