package e2e

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"payonce/internal/httpapi"
	"payonce/test/heldport"
)

// Clients that hold connections and do nothing with them: 10 000 are no burden, and however many come, there is room
// for those who pay.

const (
	idleClients = 10_000
	// idleCost bounds what the process grows by for each, in bytes: two buffers of net/http, a goroutine's stack, and
	// what the collector has not taken back yet.
	idleCost = 64 << 10
	// fewFiles are those that come and go by themselves: the database's, the PSP's, and those of requests for the
	// figures.
	fewFiles = 200
)

// apiProcess is the API as a program of its own, with an operator's side that can be asked for figures.
type apiProcess struct {
	t                testing.TB
	public, operator string
}

// startProcess starts an API with a command of a shell, $0 of which is the program.
func (w *world) startProcess(command, program string) *apiProcess {
	w.t.Helper()
	p := &apiProcess{t: w.t, public: heldport.Address(w.t), operator: heldport.Address(w.t)}
	running := exec.CommandContext(w.t.Context(), "sh", "-c", command, program)
	running.Env = append(os.Environ(), asAPI+"=1", "DATABASE_URL="+w.own.DatabaseURL, "PSP_URL="+w.psp.URL,
		"PSP_SECRET="+pspSecret,
		"HTTP_ADDR="+p.public, "OPERATOR_ADDR="+p.operator, "LOG_LEVEL=error", "DB_ACQUIRE_TIMEOUT=5s")
	if err := running.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = running.Process.Kill()
		_ = running.Wait()
	})
	eventually(w.t, "the start of the API", func() bool {
		status, _ := ask("http://" + p.operator + "/livez")
		return status == http.StatusOK
	})
	return p
}

// figure is a metric of the process's own.
func (p *apiProcess) figure(name string) float64 {
	p.t.Helper()
	status, page := ask("http://" + p.operator + "/metrics")
	n, there := figureIn(p.t, page, name)
	if !there {
		p.t.Fatalf("/metrics answers %d without %s", status, name)
	}
	return n
}

// openFiles is how many files this process may have open. The processes that it starts may have as many.
func openFiles(t testing.TB) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Cur, 1<<30))
}

// idle has n clients ask for nothing in particular, and keep their connections. They come from several addresses, for
// one has ports for 28 000 in all, which other tests need as well.
func idle(t testing.TB, addr string, n int) (connected []net.Conn) {
	t.Helper()
	slots, clients := make(chan struct{}, 64), make([]net.Conn, n)
	var all sync.WaitGroup
	var refused atomic.Int32
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%16))}
			c, err := (&net.Dialer{LocalAddr: from, Timeout: patience}).DialContext(t.Context(), "tcp", addr)
			if err != nil { // a system on which only 127.0.0.1 is this machine
				c, err = net.DialTimeout("tcp", addr, patience)
			}
			if err != nil {
				t.Error(err)
				return
			}
			clients[i] = c
			if served(c) != nil {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if refused.Load() > 0 {
		t.Errorf("%d of %d clients were not served", refused.Load(), n)
	}
	for _, c := range clients {
		if c != nil {
			connected = append(connected, c)
		}
	}
	t.Cleanup(func() { leave(connected) })
	return connected
}

func leave(clients []net.Conn) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// served has a connection serve one small request.
func served(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	answer := make([]byte, 0, 1024)
	for !strings.HasSuffix(string(answer), "}\n") {
		n, err := c.Read(answer[len(answer):cap(answer)])
		if err != nil || n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		answer = answer[:len(answer)+n]
	}
	return nil
}

func TestTenThousandIdleConnectionsAreNoBurden(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: ten thousand connections")
	}
	w := setup(t)
	// As it is shipped: what the race detector adds to this test's own binary is no cost of ours.
	p := w.startProcess(`GOGC= exec "$0" serve`, filepath.Join(buildPrograms(t), "api"))
	honest := *w
	honest.api = &httptest.Server{URL: "http://" + p.public}
	pay := func() { honest.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "") }
	pay()
	leave(idle(t, p.public, 500)) // what is used once, is there from here on
	eventually(t, "their leaving", func() bool { return p.figure("process_open_fds") < fewFiles })
	memory, routines := p.figure("process_resident_memory_bytes"), p.figure("go_goroutines")

	n, files := idleClients, openFiles(t)
	if n > files-2000 {
		n = files - 2000
		t.Logf("only %d clients: this system allows %d open files", n, files)
	}
	var clients []net.Conn
	for range 4 {
		clients = append(clients, idle(t, p.public, n/4)...)
		pay()
	}
	each := (p.figure("process_resident_memory_bytes") - memory) / float64(len(clients))
	t.Logf("%d clients are connected, of %.0f KiB each", len(clients), each/1024)
	if open := int(p.figure("process_open_fds")); open < len(clients) || each > idleCost {
		t.Errorf("%d files open for %d clients, who cost %.0f bytes each; want at most %d", open, len(clients), each,
			idleCost)
	}
	// And more than there is room for: those who have waited longest make it.
	if beyond := httpapi.MaxConnections - len(clients) + 1000; files > httpapi.MaxConnections+5000 {
		clients = append(clients, idle(t, p.public, beyond)...)
		if open := int(p.figure("process_open_fds")); open > httpapi.MaxConnections+fewFiles {
			t.Errorf("%d files open, for at most %d clients", open, httpapi.MaxConnections)
		}
		pay()
	}
	leave(clients)
	eventually(t, "the end of what was done for them", func() bool {
		return p.figure("process_open_fds") < fewFiles && p.figure("go_goroutines") < routines+fewFiles
	})
	pay()
}

// A process that may open few files serves fewer clients, and not at the cost of its database, its PSP and its
// operator.
func TestIdleClientsLeaveFilesForTheRest(t *testing.T) {
	if testing.Short() {
		t.Skip("long: two thousand connections")
	}
	t.Parallel()
	w := setup(t)
	const files = 1000
	p := w.startProcess(fmt.Sprintf(`ulimit -n %d && exec "$0"`, files), os.Args[0])
	honest := *w
	honest.api = &httptest.Server{URL: "http://" + p.public}
	idle(t, p.public, 2*files)
	for range 3 {
		honest.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	}
	if open := int(p.figure("process_open_fds")); open > files-100 {
		t.Errorf("%d of %d files are open", open, files)
	}
}

// idlesOf tells the clients' addresses when their connections become idle: a moment after they have their answers. Only
// so many are noticed.
func idlesOf(s *http.Server) <-chan string {
	idles, moved := make(chan string, 64), s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		moved(c, state)
		if state == http.StateIdle {
			select {
			case idles <- c.RemoteAddr().String():
			default:
			}
		}
	}
	return idles
}

func TestLongestIdleConnectionMakesRoomAndBusyOnesNever(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrap })
	const most = 4
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpapi.NewServer(w.app.Public, w.own.HTTPIdle, slog.New(slog.DiscardHandler))
	l = httpapi.LimitConnections(l, s, most, slog.New(slog.NewJSONHandler(w.logs, nil)), time.Now)
	idles := idlesOf(s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })

	addr := l.Addr().String()
	first := idle(t, addr, most-1)
	for range first {
		<-idles
	}
	for i, c := range []net.Conn{first[2], first[0], first[1]} { // the order in which they are used last
		if err := served(c); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		if at := <-idles; at != c.LocalAddr().String() {
			t.Fatalf("%s is idle, want %s", at, c.LocalAddr())
		}
	}
	newcomer := idle(t, addr, 1)[0]
	if _, err := first[2].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the one that has waited longest is not closed: %v", err)
	}
	for _, c := range []net.Conn{first[0], first[1], newcomer} {
		if err := served(c); err != nil {
			t.Fatalf("another one is closed: %v", err)
		}
	}
	if !strings.Contains(w.logs.String(), "connections at their limit") {
		t.Error("the log does not tell")
	}

	// All are in the middle of a payment.
	busy := *w
	busy.api = &httptest.Server{URL: "http://" + addr}
	var inFlight []<-chan reply
	for range most {
		inFlight = append(inFlight, busy.inBackground(paymentOf(freshKey(), "pm_ok")))
		gate.awaitArrival(t)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a client too many does not wait: %v", err)
	}
	gate.open()
	for _, r := range inFlight {
		(<-r).expect(t, http.StatusCreated, "")
	}
	if err := served(c); err != nil {
		t.Errorf("there is no room again: %v", err)
	}
}
