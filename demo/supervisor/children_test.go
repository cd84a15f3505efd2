package supervisor

import (
	"bytes"
	"context"
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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"payonce/test/heldport"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// process is a demo in a process of its own, so that signals reach it.
type process struct {
	demo
	cmd  *exec.Cmd
	out  *bytes.Buffer // complete when read is closed
	read chan struct{}
	end  chan error
}

// startProcess starts a demo as a shell does: in a process group, which has all signals of the terminal.
func startProcess(t *testing.T, dir string) *process {
	t.Helper()
	p := &process{
		demo: demo{public: heldport.Address(t), operator: heldport.Address(t), psp: heldport.Address(t),
			reconciler: heldport.Address(t)},
		out: &bytes.Buffer{}, read: make(chan struct{}), end: make(chan error, 1),
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), asDemo+"=1", "DEMO_DATA_DIR="+dir, "HTTP_ADDR="+p.public,
		"OPERATOR_ADDR="+p.operator, "MOCKPSP_ADDR="+p.psp, "RECONCILER_ADDR="+p.reconciler)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, announce := io.Pipe()
	p.cmd.Stdout = announce
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := p.cmd.Wait()
		_ = announce.CloseWithError(io.EOF)
		p.end <- err
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	ready := make(chan struct{})
	go func() {
		defer close(p.read)
		var once sync.Once
		for buffer := make([]byte, 4096); ; {
			n, err := said.Read(buffer)
			p.out.Write(buffer[:n])
			if strings.Contains(p.out.String(), "Payonce is ready") {
				once.Do(func() { close(ready) })
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case <-ready:
	case err := <-p.end:
		t.Fatalf("start the demo: %v", err)
	case <-time.After(patience):
		t.Fatal("the demo does not start")
	}
	return p
}

// children are the process ids of everything that the demo has started.
func (p *process) children(t *testing.T) []int {
	t.Helper()
	var pids []int
	for _, name := range []string{"API", "reconciler", "database"} {
		pid, err := strconv.Atoi(await(t, p.demo, running(name, "0"))[1])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func (p *process) ended(t *testing.T) error {
	t.Helper()
	err := wait.For(t, "the demo's end", p.end)
	<-p.read
	return err
}

// gone waits until none of the processes runs. One that has ended may stay as a zombie: init reaps it when it likes.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		wait.Until(t, fmt.Sprintf("process %d has ended", pid), func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) ||
				err == nil && strings.Contains(string(stat), ") Z ")
		})
	}
}

// pay sends a payment and waits until the PSP works on it. The answer, or the error, comes through the channel.
func (p *process) pay(t *testing.T, key, token string) <-chan string {
	t.Helper()
	answered := make(chan string, 1)
	req, err := http.NewRequest(http.MethodPost, "http://"+p.public+"/payments",
		strings.NewReader(`{"customerId":"cus-demo","amountCents":1200,"currency":"USD","paymentMethod":"`+token+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer demo-acme-key")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answered <- err.Error()
			return
		}
		_ = res.Body.Close()
		answered <- res.Status
	}()
	atThePSP(t, p.demo, key)
	return answered
}

// A terminal sends Ctrl-C to the whole process group. The payment in flight needs the API, the PSP and the database,
// in this order.
func TestCtrlCFinishesThePaymentInFlight(t *testing.T) {
	t.Parallel()
	p := startProcess(t, pgtest.MigratedDir(t))
	pids := p.children(t)
	for _, pid := range pids {
		if group, err := syscall.Getpgid(pid); err != nil || group == p.cmd.Process.Pid {
			t.Errorf("process %d has the signals of the terminal: group %d, %v", pid, group, err)
		}
	}
	answered := p.pay(t, "in-flight-at-ctrl-c", "pm_slow")
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	// Nobody new is let in while the payment is finished.
	for refused := false; !refused; {
		c, err := net.Dial("tcp", p.public)
		if refused = errors.Is(err, syscall.ECONNREFUSED); err == nil {
			_ = c.Close()
		}
		select {
		case answer := <-answered:
			t.Fatalf("new clients are let in until the payment in flight has ended: %s", answer)
		case <-time.After(pollEvery):
		}
	}
	// The PSP and the operator's listener stop last.
	if res := ask(t, http.MethodGet, p.psp, "/_requests", "", nil); res.status != http.StatusOK {
		t.Errorf("the PSP: %d", res.status)
	}
	if res := ask(t, http.MethodGet, p.operator, "/readyz", "", nil); !strings.Contains(res.body, "shutting down") {
		t.Errorf("the operator's listener: %d %s", res.status, res.body)
	}
	if answer := <-answered; answer != "201 Created" {
		t.Errorf("the payment in flight: %s", answer)
	}
	if err := p.ended(t); err != nil {
		t.Errorf("the demo: %v", err)
	}
	gone(t, pids)
	said := p.out.String()
	if stopping, stopped := strings.Index(said, "stopping: payments in flight"), strings.Index(said,
		"stopped; the data is in"); stopping < 0 || stopped < stopping {
		t.Errorf("the demo says\n%s", said)
	}
	if _, err := net.Dial("tcp", p.public); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("somebody still listens: %v", err)
	}
}

func TestSecondCtrlCEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := startProcess(t, pgtest.MigratedDir(t))
	pids := p.children(t)
	answered := p.pay(t, "in-flight-at-second-ctrl-c", "pm_slow")
	for ended := false; !ended; {
		// The first one is taken by the demo, and the next one by the system: when, nobody is told.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
		select {
		case err := <-p.end:
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.Exited() {
				t.Errorf("the demo: %v", err)
			}
			ended = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if answer := <-answered; strings.HasPrefix(answer, "2") {
		t.Errorf("the payment in flight was finished: %s", answer)
	}
	gone(t, pids)
}

func TestKilledDemoTakesItsChildrenAlong(t *testing.T) {
	if testing.Short() {
		t.Skip("long: two demos, and a lookup")
	}
	t.Parallel()
	dir := pgtest.MigratedDir(t)
	p := startProcess(t, dir)
	pids := p.children(t)
	p.pay(t, "in-flight-at-kill-9", "pm_silent_charged")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.ended(t)
	gone(t, pids)
	next := startDemo(t, dir)
	payUntilDone(t, next, "in-flight-at-kill-9", "pm_silent_charged")
	if n := charges(t, next, "in-flight-at-kill-9"); n != 1 {
		t.Errorf("the PSP has charged %d times", n)
	}
}

// Only Linux has a death signal. Elsewhere a child must notice by itself.
func TestChildEndsWhenItsPipeCloses(t *testing.T) {
	t.Parallel()
	c := idleReconciler(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], c.argument)
	cmd.Env, cmd.ExtraFiles = c.env, c.files
	serving := make(chan struct{})
	cmd.Stdout, cmd.Stderr = &announcement{serving: serving}, io.Discard
	life, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-serving:
	case err := <-ended:
		t.Fatalf("the child does not start: %v", err)
	}
	if err := life.Close(); err != nil {
		t.Fatal(err)
	}
	err = wait.For(t, "the child's end", ended)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("the child has ended with %v", err)
	}
}

// idleReconciler is a child that waits for a database that is not there, and would do so for ever.
func idleReconciler(t *testing.T) *child {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := handedDown(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &child{
		name: "the reconciler", argument: childReconciler, files: []*os.File{file}, stderr: io.Discard,
		env: append(os.Environ(), "DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "PSP_SECRET=demo-psp-secret"),
		log: slog.New(slog.DiscardHandler), stopLimit: patience,
	}
}

func TestChildThatDoesNotStopInTimeIsAnError(t *testing.T) {
	t.Parallel()
	c := idleReconciler(t)
	c.stopLimit = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := c.run(ctx, func() {
		// A process that is held sees no SIGTERM, so it cannot be quicker than the limit.
		if err := c.signal(syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		stop()
	})
	if err == nil || !strings.Contains(err.Error(), "stop the reconciler: it was killed") {
		t.Errorf("no time to stop: %v", err)
	}
}

// A person may press kill -9 as often as they like.
func TestKilledChildHasNotFailed(t *testing.T) {
	t.Parallel()
	c := idleReconciler(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := 0
	var told []string
	c.tell = func(what string) { told = append(told, what) }
	err := c.run(ctx, func() {
		if served++; served > mostFailures {
			stop()
			return
		}
		if err := c.kill(); err != nil {
			t.Error(err)
		}
	})
	if err != nil || served != mostFailures+1 || c.State().Restarts != mostFailures {
		t.Errorf("it has served %d times: %v", served, err)
	}
	want := strings.Repeat("starts, is killed, ", mostFailures) + "starts, is stopped"
	if all := strings.Join(told, ", "); all != want {
		t.Errorf("pictures are told: %s", all)
	}
}

// A picture shows what happened to the processes of the demo before, too. The file does not grow for ever.
func TestEventsOutliveTheDemoAndAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.json")
	log := slog.New(slog.DiscardHandler)
	if err := os.WriteFile(path, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	openEvents(path, log).of("API")("is killed")
	second := openEvents(path, log)
	if len(second.all) != 1 || second.all[0].What != "is killed" {
		t.Errorf("of the demo before, there is %+v", second.all)
	}
	for range mostEvents {
		second.add("database", "crashes")
	}
	if all := openEvents(path, log).all; len(all) != mostEvents || all[0].Process != "database" {
		t.Errorf("%d events are stored, the first is %+v", len(all), all[0])
	}
}

func TestChildThatFailsAgainAndAgainEndsTheDemoWithItsError(t *testing.T) {
	t.Parallel()
	starts := 0
	c := &child{
		name: "the API", argument: childAPI, env: append(os.Environ(), "LEASE=soon"), stderr: io.Discard,
		log: slog.New(slog.DiscardHandler), stopLimit: time.Second,
	}
	c.changed = func() { starts = max(starts, c.State().Restarts+1) }
	err := c.run(t.Context(), func() { t.Error("it serves") })
	if err == nil || starts != mostFailures ||
		!strings.HasSuffix(err.Error(), `demo: LEASE is "soon", must be a span of time, such as 500ms, 30s or 48h`) {
		t.Errorf("after %d starts: %v", starts, err)
	}
}

// The listener of the child stays open while the child is away, so a request that is passed on would wait.
func TestProxyAnswersAtOnceWhileTheAPIIsAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	serves := false
	proxy := newProxy(l.Addr().String(), func() bool { return serves }, slog.New(slog.DiscardHandler))
	for accept, want := range map[string][]string{
		"*/*":                                  {"application/problem+json", `"status":502`},
		"text/html,application/xhtml+xml;q=.9": {"text/html; charset=utf-8", `<meta http-equiv="refresh" content="1">`},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
		r.Header.Set("Accept", accept)
		proxy.ServeHTTP(w, r)
		if w.Code != http.StatusBadGateway || w.Header().Get("Retry-After") != "1" ||
			w.Header().Get("Content-Type") != want[0] || !strings.Contains(w.Body.String(), want[1]) {
			t.Errorf("%s: %d %v %s", accept, w.Code, w.Header(), w.Body)
		}
	}
	// A child may also end between the look and the answer.
	serves = true
	go func() {
		if c, err := l.Accept(); err == nil {
			_ = c.Close()
		}
	}()
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusBadGateway {
		t.Errorf("a child that ends before it answers: %d", w.Code)
	}
}

// started is a server that leaves OPTIONS * to its handler, as those of Payonce do.
func started(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.DisableGeneralOptionsHandler = true
	s.Start()
	return s
}

// A client of the operator's address should not notice that the API does not serve it itself.
func TestProxyPassesRequestsOnAsTheyCame(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	api := started(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "%s %s %s %q\n", r.Method, r.RequestURI, r.Host, r.Header.Get("Accept-Encoding"))
		_ = http.NewResponseController(w).Flush()
		<-goOn
	}))
	defer api.Close()
	proxy := started(newProxy(api.Listener.Addr().String(), func() bool { return true },
		slog.New(slog.DiscardHandler)))
	defer proxy.Close()
	defer close(goOn) // before the servers are closed, which wait for their requests
	for _, target := range []string{"/operator//x%2Fy?a=1;b=%zz", "//", "*"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxy.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "OPTIONS %s HTTP/1.1\r\nHost: payonce.example:8081\r\n\r\n", target)
		want := `OPTIONS ` + target + ` payonce.example:8081 ""`
		var got []byte
		// It comes although the answer has not ended.
		for buffer := make([]byte, 1024); !bytes.Contains(got, []byte(want)); {
			n, err := conn.Read(buffer)
			got = append(got, buffer[:n]...)
			if err != nil {
				t.Errorf("%s: want %s, got %s: %v", target, want, got, err)
				break
			}
		}
	}
}
