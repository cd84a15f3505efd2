package app_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/uuid"

	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/httpapi"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	patience = time.Minute
	apiKey   = "test-acme-key"
)

func settings(t *testing.T, env map[string]string) config.API {
	t.Helper()
	c, err := config.Load(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pspServed is a mock PSP that serves. end stops it and waits.
func pspServed(t *testing.T) (psp *mockpsp.Server, url string, end func() error) {
	t.Helper()
	psp, err := mockpsp.New(mockpsp.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- psp.Serve(ctx, l) }()
	return psp, "http://" + l.Addr().String(), func() error {
		cancel()
		return wait.For(t, "the mock PSP's end", ended)
	}
}

// A request that has waited may be executed next, and the server ends its answer at WriteTimeout.
func TestLongestWaitInFlightLeavesTimeForAnExecutionAndTheAnswer(t *testing.T) {
	t.Parallel()
	c := settings(t, nil)
	c.InFlightWait = httpapi.WriteTimeout - 5*time.Second - c.PSPTotal
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if c.InFlightWait++; c.Check() == nil {
		t.Errorf("%s is taken", c.InFlightWait)
	}
}

// This test is not parallel: it counts the goroutines of the whole binary.
func TestRunLeavesNoGoroutineBehind(t *testing.T) {
	url := pgtest.NewURL(t)
	before := goleak.IgnoreCurrent()
	seed(t, url)
	_, pspURL, endPSP := pspServed(t)

	logs := &addresses{found: make(chan string, 1)}
	a, err := app.NewAPI(t.Context(), settings(t, map[string]string{
		"DATABASE_URL": url, "PSP_URL": pspURL, "PSP_SECRET": mockpsp.DefaultConfig().Secret,
		"HTTP_ADDR": "127.0.0.1:0", "OPERATOR_ADDR": "127.0.0.1:0",
	}), slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- a.Run(ctx, func() { close(ready) }) }()
	<-ready
	transport := &http.Transport{}
	client := &http.Client{Transport: transport, Timeout: patience}
	pay(t, client, "http://"+<-logs.found)

	interrupt()
	if err := wait.For(t, "the end", ended); err != nil {
		t.Fatalf("ended: %v", err)
	}
	transport.CloseIdleConnections()
	if err := endPSP(); err != nil {
		t.Fatalf("the mock PSP ended: %v", err)
	}
	goleak.VerifyNone(t, before)
}

func seed(t *testing.T, url string) {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, pgtest.Limits())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := tenants.NewRegistry(db, app.NewID)
	if err := r.EnsureTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.AddKey(t.Context(), "acme", apiKey, "", []tenants.Permission{tenants.PaymentsWrite}); err != nil {
		t.Fatal(err)
	}
}

func pay(t *testing.T, client *http.Client, base string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/payments",
		strings.NewReader(`{"customerId":"c","amountCents":1,"currency":"USD"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Idempotency-Key", "0123456789abcdef")
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("%d %v %s", res.StatusCode, err, body)
	}
}

// addresses finds the public address in the log.
type addresses struct{ found chan string }

func (a *addresses) Write(p []byte) (int, error) {
	if _, rest, ok := strings.Cut(string(p), "msg=serving public="); ok {
		address, _, _ := strings.Cut(rest, " ")
		a.found <- address
	}
	return len(p), nil
}

func TestSettingsThatCannotWorkAreRefusedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	good := settings(t, map[string]string{"DATABASE_URL": "postgres://127.0.0.1:1/none"})
	for name, row := range map[string]struct {
		edit func(*config.API)
		want string
	}{
		"database URL": {func(c *config.API) { c.DatabaseURL = "postgres://u:canary@h:port/d" },
			"DATABASE_URL"},
		"database string": {func(c *config.API) { c.DatabaseURL = "host=h password=canary port=x" },
			"DATABASE_URL"},
		"database string with spaces": {func(c *config.API) { c.DatabaseURL = "host=h password = canary port=x" },
			"DATABASE_URL"},
		"database URL with two @": {func(c *config.API) { c.DatabaseURL = "postgres://u:pass@canary@h:port/d" },
			"DATABASE_URL"},
		"database secret alone": {func(c *config.API) { c.DatabaseURL = "canary" }, "DATABASE_URL"},
		"PSP URL":               {func(c *config.API) { c.PSPURL = "psp" }, "PSP_URL"},
		"PSP limits":            {func(c *config.API) { c.PSPInFlight = 0 }, "PSP limit"},
		"terms":                 {func(c *config.API) { c.Retention = time.Hour }, "retention"},
	} {
		c := good
		row.edit(&c)
		if a, err := app.NewAPI(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil {
			a.Close()
			t.Errorf("%s: taken", name)
		} else if !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process may start before its database does.
func TestAPIIsMadeWithoutADatabase(t *testing.T) {
	t.Parallel()
	a, err := app.NewAPI(t.Context(), settings(t, map[string]string{"DATABASE_URL": "postgres://127.0.0.1:1/none"}),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for path, want := range map[string]int{"/livez": http.StatusOK, "/metrics": http.StatusOK,
		"/readyz": http.StatusServiceUnavailable} {
		rec := httptest.NewRecorder()
		if a.Operator.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil)); rec.Code != want {
			t.Errorf("%s is %d, want %d", path, rec.Code, want)
		}
	}
}

// A process that cannot tell what is its own takes no payments.
func TestProcessThatDoesNotKnowItsInstallationIsNotReady(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	db := pgtest.Open(t, url, pgtest.Limits())
	pgtest.Exec(t, db.Pool(), "DELETE FROM installation")
	a, err := app.NewAPI(t.Context(), settings(t, map[string]string{"DATABASE_URL": url}),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ready := func() (status int, why string) {
		rec := httptest.NewRecorder()
		a.Operator.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return rec.Code, rec.Body.String()
	}
	status, why := ready()
	if status != http.StatusServiceUnavailable || !strings.Contains(why, "id of the installation") {
		t.Errorf("/readyz is %d: %s", status, why)
	}
	pgtest.Exec(t, db.Pool(), "INSERT INTO installation DEFAULT VALUES")
	if status, why := ready(); status != http.StatusOK {
		t.Errorf("/readyz is %d: %s", status, why)
	}
	// The database is another one by now, and the process goes on marking what it makes with the former id.
	if err := db.SetInstallation(t.Context(), uuid.New()); err != nil {
		t.Fatal(err)
	}
	status, why = ready()
	if status != http.StatusServiceUnavailable || !strings.Contains(why, "start this process again") {
		t.Errorf("/readyz is %d: %s", status, why)
	}
}

func TestAddressThatCannotBeUsedIsNamedWithItsSetting(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"nonsense":        `HTTP_ADDR is "nonsense", must be host:port`,
		"127.0.0.1:99999": `HTTP_ADDR is "127.0.0.1:99999": its port`,
		// TEST-NET-3 of RFC 5737, nobody's
		"localhost:": `HTTP_ADDR is "localhost:": its port`, "203.0.113.1:1": "listen on HTTP_ADDR=203.0.113.1:1",
	} {
		opened, err := app.Listen(t.Context(), app.Address{Setting: "HTTP_ADDR", Addr: addr})
		_, taken := errors.AsType[app.TakenError](err)
		if err == nil || opened != nil || !strings.HasPrefix(err.Error(), want) || taken {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// All that is wrong is said at once, so that nobody has to try once for each.
func TestTakenAddressesAreSaidTogetherWithFreeOnesThatDiffer(t *testing.T) {
	t.Parallel()
	taken, err := app.Listen(t.Context(), app.Address{Setting: "x", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer taken[0].Close()
	addr := taken[0].Addr().String()
	opened, err := app.Listen(t.Context(), app.Address{Setting: "ONE", Addr: addr},
		app.Address{Setting: "TWO", Addr: addr},
		app.Address{Setting: "THREE", Addr: "127.0.0.1:x"}, app.Address{Setting: "FOUR", Addr: "127.0.0.1:0"})
	if _, is := errors.AsType[app.TakenError](err); !is || opened != nil {
		t.Fatalf("got %v", err)
	}
	said := regexp.MustCompile(`(?m)^(\w+)=`+addr+
		` is taken by another process; set (\w+) to a free address, such as (127\.0\.0\.1:\d+)$`).
		FindAllStringSubmatch(err.Error(), -1)
	if len(said) != 2 || !strings.Contains(err.Error(), `THREE is "127.0.0.1:x"`) ||
		strings.Contains(err.Error(), "FOUR") {
		t.Fatalf("said is\n%v", err)
	}
	if said[0][1]+said[0][2]+said[1][1]+said[1][2] != "ONEONETWOTWO" || said[0][3] == said[1][3] ||
		said[0][3] == addr || said[1][3] == addr {
		t.Errorf("said is\n%v", err)
	}
}

func TestOneAddressForTwoSettingsIsBlamedOnUs(t *testing.T) {
	t.Parallel()
	for range 20 { // a port that was free a moment ago may be somebody's
		free, err := app.Listen(t.Context(), app.Address{Setting: "x", Addr: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		addr := free[0].Addr().String()
		_ = free[0].Close()
		_, err = app.Listen(t.Context(), app.Address{Setting: "HTTP_ADDR", Addr: addr},
			app.Address{Setting: "OPERATOR_ADDR", Addr: addr})
		if err != nil && strings.HasPrefix(err.Error(), "OPERATOR_ADDR="+addr+
			" is taken by HTTP_ADDR; set OPERATOR_ADDR to a free address") {
			return
		}
		t.Log(err)
	}
	t.Fatal("never said")
}

// The mock holds some requests for ever: its end must not wait for them.
func TestMockPSPEndsWhileItHoldsRequests(t *testing.T) {
	t.Parallel()
	psp, url, end := pspServed(t)
	answered := make(chan struct{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/charges",
		strings.NewReader(`{"amountCents":1,"currency":"USD","paymentMethod":"pm_timeout_charged","reference":"pay_1"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer demo-psp-secret")
	req.Header.Set("PSP-Account", "acme")
	req.Header.Set("Idempotency-Key", "held")
	req.Header.Set("Content-Type", "application/json")
	go func() {
		defer close(answered)
		if res, err := (&http.Client{Timeout: patience}).Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	awaitHeld(t, psp)
	began := time.Now()
	if err := end(); err != nil || time.Since(began) > patience/2 {
		t.Fatalf("ended after %s: %v", time.Since(began), err)
	}
	<-answered
}

func awaitHeld(t *testing.T, psp *mockpsp.Server) {
	t.Helper()
	wait.Until(t, "the request's arrival", func() bool {
		rec := httptest.NewRecorder()
		psp.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/_ledger?account=acme&idempotencyKey=held", nil))
		return strings.Contains(rec.Body.String(), `"held"`)
	})
}

// The balancer must be the one that closes an idle connection. Only the operator knows how long it waits.
func TestIdleConnectionsAreClosedAfterTheTimeOfTheSetting(t *testing.T) {
	t.Parallel()
	a, err := app.NewAPI(t.Context(), settings(t, map[string]string{
		"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "PSP_SECRET": "unused", "HTTP_IDLE_TIMEOUT": "100ms",
	}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := app.Listen(t.Context(), app.Address{Setting: "HTTP_ADDR", Addr: "127.0.0.1:0"},
		app.Address{Setting: "OPERATOR_ADDR", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, opened[0], opened[1], func() {}) }()
	defer func() {
		interrupt()
		if err := wait.For(t, "the end", ended); err != nil {
			t.Error(err)
		}
	}()
	for i, path := range []string{"/nothing", "/livez"} {
		status := []string{"404", "200"}[i]
		c, err := net.DialTimeout("tcp", opened[i].Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// It ends where the server closes the connection.
		if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+status+" ") {
			t.Errorf("%s: %v, %.60s", path, err, answer)
		}
	}
}
