package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/heldport"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// asAPI in the environment makes the test binary an API process, so that it can be killed.
const asAPI = "PAYONCE_TEST_AS_API"

func serveAsAPI() {
	settings, err := config.Load(os.Getenv)
	if err != nil {
		panic(err)
	}
	settings.DatabaseURL = os.Getenv("DATABASE_URL")
	api, err := app.NewAPI(context.Background(), settings, telemetry.NewLogger(os.Stderr, 0))
	if err != nil {
		panic(err)
	}
	panic(api.Run(context.Background(), func() { _, _ = os.Stdout.WriteString("ready\n") }))
}

// victim is an API process between a proxy and the PSP of a world that has an API of its own on the same database.
type victim struct {
	*world
	proxy   *pgproxy.Proxy
	address string
	process *exec.Cmd
}

func startVictim(t *testing.T, with ...func(*options)) *victim {
	t.Helper()
	v := &victim{world: setup(t, with...), address: heldport.Address(t)}
	v.proxy = pgproxy.Start(t, pgtest.As(t, v.db.Config().ConnString(), postgres.API))
	v.process = exec.CommandContext(t.Context(), os.Args[0])
	v.process.Env = append(os.Environ(), asAPI+"=1", "DATABASE_URL="+v.proxy.URL(), "PSP_URL="+v.psp.URL, "PSP_SECRET="+
		pspSecret,
		"HTTP_ADDR="+v.address, "OPERATOR_ADDR="+heldport.Address(t), "LOG_LEVEL=error")
	out, err := v.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.process.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, len("ready\n"))
	if _, err := out.Read(ready); err != nil {
		t.Fatalf("the API did not start: %v", err)
	}
	return v
}

// payUnanswered sends a payment to the process that will be killed. Nobody will answer.
func (v *victim) payUnanswered(key string) {
	go func() {
		req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, "http://"+v.address+"/payments",
			strings.NewReader(order("pm_ok")))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+acmeKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		if res, err := http.DefaultClient.Do(req); err == nil {
			v.t.Errorf("the killed API has answered %d", res.StatusCode)
			_ = res.Body.Close()
		}
	}()
}

// kill is kill -9; what was still on its way to the database is lost with the process.
func (v *victim) kill() {
	v.t.Helper()
	if err := v.process.Process.Kill(); err != nil {
		v.t.Fatal(err)
	}
	_ = v.process.Wait()
	v.proxy.Down()
}

func TestCrashWindow1LeavesNothing(t *testing.T) {
	t.Parallel()
	v := startVictim(t)
	key := freshKey()
	reservation := v.proxy.On("ReserveKeys", pgproxy.HoldBefore)
	v.payUnanswered(key)
	reservation.Await(t)
	v.kill()
	if n := v.count("SELECT count(*) FROM idempotency_keys WHERE key = $1", key); n != 0 {
		t.Fatal("a reservation that was never sent is there")
	}
	r := v.pay(key, "pm_ok")
	r.expect(t, http.StatusCreated, "")
	if r.header.Get("Idempotent-Replayed") != "false" || v.pspRequests("acme", key) != 1 {
		t.Fatal("the retry was no new request")
	}
}

func TestCrashWindow2LeavesALeaseThatRunsOut(t *testing.T) {
	t.Parallel()
	v := startVictim(t)
	key := freshKey()
	reserved := v.proxy.On("ReserveKeys", pgproxy.HoldAfter)
	v.payUnanswered(key)
	reserved.Await(t)
	v.kill()
	v.do(preferring(paymentOf(key, "pm_ok"), "wait=0")).
		expect(t, http.StatusConflict, "idempotency_key_in_progress")
	v.loseLease(key, "pm_ok")
	if v.pspRequests("acme", key) != 0 {
		t.Fatal("the PSP was asked for a payment that nobody sent")
	}
}

func TestCrashWindow3LeavesAnUnknownPaymentThatIsNotSentAgain(t *testing.T) {
	t.Parallel()
	charged := make(chan struct{})
	v := startVictim(t, func(o *options) {
		o.between = func(psp http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				psp.ServeHTTP(discard{}, r) // charged, and the answer is on its way for ever
				close(charged)
				<-r.Context().Done()
			})
		}
	})
	key := freshKey()
	v.payUnanswered(key)
	wait.For(t, "the PSP is asked", charged)
	v.kill()
	v.loseLease(key, "pm_ok")
	v.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	if l := v.ledger("acme", key); len(l.Charges) != 1 || v.pspRequests("acme", key) != 1 {
		t.Fatalf("%d charges, PSP asked %d times", len(l.Charges), v.pspRequests("acme", key))
	}
}

func TestCrashWindow4LeavesAReplay(t *testing.T) {
	t.Parallel()
	v := startVictim(t)
	key := freshKey()
	completed := v.proxy.On("CompleteKeys", pgproxy.HoldAfter)
	v.payUnanswered(key)
	completed.Await(t)
	v.kill()
	r := v.pay(key, "pm_ok")
	r.expect(t, http.StatusCreated, "")
	if r.header.Get("Idempotent-Replayed") != "true" || v.pspRequests("acme", key) != 1 {
		t.Fatal("the retry was no replay")
	}
}

// discard is an answer that nobody gets.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
