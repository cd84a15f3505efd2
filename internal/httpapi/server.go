package httpapi

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"payonce/internal/problem"
)

// WriteTimeout bounds the time from the request's headers to the end of the answer.
const WriteTimeout = 30 * time.Second

// NewServer returns a server with the limits of the contract. Each limit bounds what a slow or idle client can occupy.
// idle is how long a connection without a request is kept. LimitConnections bounds how many there are.
func NewServer(h http.Handler, idle time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       idle,
		MaxHeaderBytes:    16 << 10,
		// Otherwise net/http would answer OPTIONS * itself: with 200, without a request id and without a log line.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// How many connections clients may hold at the same time. Timeouts bound how long a client holds a connection, but not
// how many it holds. Each costs a file and about 20 KiB. Without a limit, nothing would be left for the database and
// the PSP.
const (
	MaxConnections         = 12_000
	MaxOperatorConnections = 256
)

// fullEvery is how often the log says that the limit is reached.
const fullEvery = time.Minute

// LimitConnections limits how many connections of l the server s has at the same time. The limit alone would let idle
// clients keep the others out. So when it is reached, the connection that has been idle for the longest time is closed.
// Its client loses nothing, because clients of HTTP must expect that an idle connection is closed. If all connections
// are in use, a new one waits. Each connection notes when its client hangs up. LimitConnections must be called before s
// serves.
func LimitConnections(l net.Listener, s *http.Server, most int, log *slog.Logger, now func() time.Time) net.Listener {
	var mu sync.Mutex
	var idle list.List                   // of net.Conn, the longest idle first
	open := map[net.Conn]*list.Element{} // its place among the idle ones; nil while it has a request
	var said time.Time                   // when the log last said that the limit is reached
	s.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		place, known := open[c] // Not after it was closed here.
		if place != nil {
			idle.Remove(place)
		}
		switch {
		case state == http.StateNew, state == http.StateIdle && known:
			open[c] = idle.PushBack(c)
		case state == http.StateActive && known:
			open[c] = nil
		default:
			delete(open, c)
		}
		longest := idle.Front()
		if len(open) < most || longest == nil || state == http.StateNew && longest.Value == c {
			return
		}
		if at := now(); at.Sub(said) >= fullEvery {
			said = at
			log.Warn("connections at their limit; the longest idle are closed", slog.Int("limit", most))
		}
		leaves, _ := idle.Remove(longest).(net.Conn)
		delete(open, leaves)
		_ = leaves.Close()
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return listener{netutil.LimitListener(l, most), now}
}

// listener accepts connections.
type listener struct {
	net.Listener

	now func() time.Time
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, now: l.now}, nil
}

// connection notes when its client hangs up. While a request is answered, the server reads from the connection to find
// that out. So the note costs a request nothing.
type connection struct {
	net.Conn

	now  func() time.Time
	gone atomic.Int64 // Unix nanoseconds; 0 if the client has not hung up
}

type connectionKey struct{}

// refusal follows the status in what net/http itself answers, before any handler runs. No answer of ours has it there.
const refusal = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write answers a request that net/http cannot read with a problem document in the place of its plain text. No code of
// the catalogue is about that: each has one status, and the status is net/http's.
func (c *connection) Write(p []byte) (int, error) {
	end := bytes.IndexByte(p, '\r')
	if end < 0 || !bytes.HasPrefix(p[end:], []byte(refusal)) {
		return c.Conn.Write(p)
	}
	_, said, _ := strings.Cut(string(p[:end]), " ") // such as 400 Bad Request
	status := http.StatusBadRequest
	for _, other := range []int{http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented,
		http.StatusHTTPVersionNotSupported} {
		if strings.HasPrefix(said, strconv.Itoa(other)) {
			status = other
		}
	}
	body := problem.Document{Type: "about:blank", Title: http.StatusText(status), Status: status,
		Code: "unreadable_request", Detail: "The server cannot read this as a request, so nothing of it was executed.",
	}.JSON()
	_, err := fmt.Fprintf(c.Conn, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		said, problem.ContentType, len(body), body)
	return len(p), err
}

// Read ends by a deadline when the server has answered, and wants to read the next request itself.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.gone.CompareAndSwap(0, c.now().UnixNano())
	}
	return n, err
}

// hungUp is when the client of a request has hung up; zero if it has not, or if that was not seen.
func hungUp(request context.Context) time.Time {
	if c, ok := request.Value(connectionKey{}).(*connection); ok && c.gone.Load() != 0 {
		return time.Unix(0, c.gone.Load())
	}
	return time.Time{}
}

// Checks are the checks of /readyz, by their names.
type Checks = map[string]func(context.Context) error

// readyLimit bounds one readiness check.
const readyLimit = 2 * time.Second

// Machines is the handler of the operator's listener where operators have nothing to see.
func Machines(metrics prometheus.Gatherer, checks Checks) http.Handler {
	r := chi.NewRouter()
	forMachines(r, metrics, checks)
	return r
}

// forMachines adds what machines on a private network ask. /livez checks only the process, and /readyz runs the checks.
func forMachines(r chi.Router, metrics prometheus.Gatherer, checks Checks) {
	r.Get("/livez", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	})
	r.Get("/readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, checks) })
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
}

func ready(w http.ResponseWriter, r *http.Request, checks Checks) {
	ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
	defer cancel()
	status := http.StatusOK
	report := struct {
		Ready  bool              `json:"ready"`
		Checks map[string]string `json:"checks"`
	}{Ready: true, Checks: map[string]string{}}
	for name, check := range checks {
		report.Checks[name] = "ok"
		if err := check(ctx); err != nil {
			report.Checks[name] = err.Error()
			report.Ready, status = false, http.StatusServiceUnavailable
		}
	}
	body, err := json.Marshal(report, json.Deterministic(true))
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	write(w, status, jsonType, append(body, '\n'))
}
