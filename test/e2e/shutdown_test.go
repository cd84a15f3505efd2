package e2e

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/test/heldport"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// process is an API that runs as the command does: listeners of its own, and an end.
type process struct {
	t                testing.TB
	public, operator string // base URLs
	interrupt        context.CancelFunc
	ended            <-chan error
}

// run starts a process on w's database and PSP.
func (w *world) run(edit func(*config.API)) *process {
	w.t.Helper()
	settings := testSettings(w.t, pgtest.As(w.t, w.db.Config().ConnString(), postgres.API), w.psp.URL)
	settings.HTTPAddr, settings.OperatorAddr = "127.0.0.1:0", "127.0.0.1:0"
	edit(&settings)
	logs := &lockedBuffer{}
	a, err := app.NewAPI(w.t.Context(), settings, slog.New(slog.NewJSONHandler(logs, nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	ready, ended, over := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- a.Run(ctx, sync.OnceFunc(func() { close(ready) }))
	}()
	w.t.Cleanup(func() {
		interrupt()
		<-over
	})
	select {
	case <-ready:
	case err := <-ended:
		w.t.Fatalf("ended: %v", err)
	}
	addresses := regexp.MustCompile(`"public":"([^"]+)","operator":"([^"]+)"`).FindStringSubmatch(logs.String())
	if addresses == nil {
		w.t.Fatalf("the log does not tell the addresses: %s", logs)
	}
	return &process{w.t, "http://" + addresses[1], "http://" + addresses[2], interrupt, ended}
}

// end waits for the process.
func (p *process) end() error {
	p.t.Helper()
	return wait.For(p.t, "the process's end", p.ended)
}

// ask sends a GET on a connection of its own; 0 is the status of no answer.
func ask(url string) (status int, body string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+acmeKey)
	res, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(raw)
}

// payAt sends a payment to a process, in the background. The reply has no status if there is no answer.
func (w *world) payAt(p *process, key string) <-chan reply {
	replies := make(chan reply, 1)
	go func() {
		r, err := w.at(p.public).try(paymentOf(key, "pm_ok"))
		if err != nil {
			r = reply{}
		}
		replies <- r
	}()
	return replies
}

func TestPaymentInFlightIsFinishedBeforeTheProcessEnds(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrap })
	p := w.run(func(*config.API) {})
	if status, body := ask(p.operator + "/readyz"); status != http.StatusOK {
		t.Fatalf("readyz is %d: %s", status, body)
	}
	key := freshKey()
	inFlight := w.payAt(p, key)
	gate.awaitArrival(t)
	p.interrupt()

	eventually(t, "unreadiness", func() bool {
		status, body := ask(p.operator + "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"serving":"shutting down"`)
	})
	if status, _ := ask(p.operator + "/livez"); status != http.StatusOK {
		t.Fatalf("livez is %d while draining", status)
	}
	eventually(t, "the end of new requests", func() bool {
		status, body := ask(p.public + "/payments")
		return status == 0 || status == http.StatusServiceUnavailable &&
			strings.Contains(body, `"code":"shutting_down"`)
	})
	select {
	case err := <-p.ended:
		t.Fatalf("the process ended with a payment in flight: %v", err)
	default:
	}

	gate.open()
	r := <-inFlight
	r.expect(t, http.StatusCreated, "")
	if err := p.end(); err != nil {
		t.Fatalf("ended: %v", err)
	}
	w.chargedOnce(key, key, r)
	for _, url := range []string{p.public + "/docs", p.operator + "/livez"} {
		if status, _ := ask(url); status != 0 {
			t.Errorf("%s is still served", url)
		}
	}
}

// Load balancers need a moment to notice. What they send meanwhile is served.
func TestRequestsAreServedUntilTheDrainDelayIsOver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const delay = 2 * time.Second
	p := w.run(func(c *config.API) { c.DrainDelay = delay })
	began := time.Now()
	p.interrupt()
	eventually(t, "unreadiness", func() bool {
		status, _ := ask(p.operator + "/readyz")
		return status == http.StatusServiceUnavailable
	})
	last := <-w.payAt(p, freshKey())
	last.expect(t, http.StatusCreated, "")
	if last.header.Get("Connection") != "close" {
		t.Errorf("the last answer leaves its connection open: %v", last.header)
	}
	if err := p.end(); err != nil || time.Since(began) < delay {
		t.Fatalf("ended after %s: %v", time.Since(began), err)
	}
}

// A connection that is in use when the drain begins stays open for the answer, and no longer.
func TestKeptConnectionIsTurnedAway(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrap })
	p := w.run(func(*config.API) {})
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.public, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	key, second := freshKey(), freshKey()
	head := "POST /payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + acmeKey +
		"\r\nContent-Type: application/json\r\nContent-Length: "
	body := order("pm_ok")
	request := func(key string) string {
		return head + strconv.Itoa(len(body)) + "\r\nIdempotency-Key: " + key + "\r\n\r\n" + body
	}
	if _, err := io.WriteString(conn, request(key)+request(second)); err != nil { // the second waits for the first
		t.Fatal(err)
	}
	gate.awaitArrival(t)
	p.interrupt()
	eventually(t, "the end of new requests", func() bool {
		status, _ := ask(p.public + "/payments")
		return status != http.StatusOK
	})
	gate.open()

	answers := bufio.NewReader(conn)
	first, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, first.Body); err != nil || first.StatusCode != http.StatusCreated {
		t.Fatalf("the request in flight: %d %v", first.StatusCode, err)
	}
	_ = first.Body.Close()
	next, err := http.ReadResponse(answers, nil)
	if err == nil {
		_ = next.Body.Close()
		if next.StatusCode != http.StatusServiceUnavailable || next.Header.Get("Retry-After") == "" {
			t.Fatalf("the request behind it: %d", next.StatusCode)
		}
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Fatalf("ended: %v", err)
	}
	w.untouched(second)
}

// Clients that keep their connections pay one after the other while the process ends. What it accepts, it answers: a
// request without an answer, or one that is refused, has left nothing. The last answers on a connection close it.
func TestNothingAcceptedIsLostOnAKeptConnection(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.run(func(c *config.API) { c.DrainDelay = 300 * time.Millisecond })
	const clients = 16
	type told struct {
		key string
		reply
	}
	all, paying := make(chan []told, clients), make(chan struct{}, clients)
	for range clients {
		own := *w.at(p.public) // a client with a connection of its own
		own.http = &http.Client{Transport: &http.Transport{}, Timeout: patience}
		go func() {
			var heard []told
			for ended := false; !ended; {
				key := freshKey()
				r, err := own.try(call{method: "POST", path: "/payments", key: key, body: order("pm_ok")})
				if err != nil {
					r = reply{}
				}
				heard = append(heard, told{key, r})
				ended = r.status != http.StatusCreated && r.status != http.StatusTooManyRequests
				if len(heard) == 1 {
					paying <- struct{}{}
				}
			}
			all <- heard
		}()
	}
	for range clients {
		<-paying
	}
	p.interrupt()
	closed := 0
	for range clients {
		heard := <-all
		last := heard[len(heard)-1]
		if last.status != 0 && last.header.Get("Connection") != "close" {
			t.Errorf("the last answer, %d, leaves its connection open", last.status)
		}
		for _, r := range heard {
			if r.status == http.StatusCreated {
				w.chargedOnce(r.key, r.key, r.reply)
			} else {
				w.untouched(r.key)
			}
			if r.status != 0 && r.header.Get("Connection") == "close" {
				closed++
			}
		}
	}
	if closed == 0 {
		t.Error("no answer closes its connection")
	}
	if err := p.end(); err != nil {
		t.Fatalf("ended: %v", err)
	}
}

func TestDrainLimitIsAnErrorAndLosesNothing(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrap })
	p := w.run(func(c *config.API) { c.DrainLimit = 100 * time.Millisecond })
	key := freshKey()
	inFlight := w.payAt(p, key)
	gate.awaitArrival(t)
	p.interrupt()
	err := p.end()
	if !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "payments still in flight after 100ms") {
		t.Fatalf("ended: %v", err)
	}
	if r := <-inFlight; r.status != 0 {
		t.Fatalf("the client that was cut off is told %d", r.status)
	}
	if k := w.keyRow(key); k.Status != "in_progress" {
		t.Fatalf("key is %+v", k)
	}
	gate.open()
	// A request after the end of the lease finds the key unknown, never free.
	w.endLease(key)
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
}

func TestPortThatIsTakenIsNamedWithItsSetting(t *testing.T) {
	t.Parallel()
	w := setup(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	public := heldport.Address(t)
	for setting, edit := range map[string]func(*config.API){
		"HTTP_ADDR":     func(c *config.API) { c.HTTPAddr, c.OperatorAddr = taken.Addr().String(), "127.0.0.1:0" },
		"OPERATOR_ADDR": func(c *config.API) { c.HTTPAddr, c.OperatorAddr = public, taken.Addr().String() },
	} {
		settings := testSettings(t, pgtest.As(t, w.db.Config().ConnString(), postgres.API), w.psp.URL)
		edit(&settings)
		a, err := app.NewAPI(t.Context(), settings, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		err = a.Run(t.Context(), func() { t.Error("it says that it is ready") })
		if err == nil || !strings.HasPrefix(err.Error(), setting+"="+taken.Addr().String()+
			" is taken by another process") {
			t.Fatalf("%s: %v", setting, err)
		}
	}
	if c, err := net.Dial("tcp", public); err == nil {
		_ = c.Close()
		t.Fatal("the public listener stays open after the operator's has failed")
	}
}
