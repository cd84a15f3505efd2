package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"payonce/test/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	pgtest.Main(m)
}

const patience = 20 * time.Second

// running is the program, run as main would, on a port of its own.
type running struct {
	base   string
	stop   context.CancelFunc
	ended  chan error
	logged *bytes.Buffer // read it after the end only
}

func environment(url string, more map[string]string) func(string) string {
	return func(name string) string {
		switch value, ok := more[name]; {
		case ok:
			return value
		case name == "DATABASE_URL":
			return url
		case name == "ADDR":
			return "127.0.0.1:0"
		}
		return ""
	}
}

func start(t *testing.T, url string, more map[string]string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	r := &running{stop: stop, ended: make(chan error, 1), logged: new(bytes.Buffer)}
	go func() {
		err := run(ctx, nil, environment(url, more), in, r.logged)
		in.CloseWithError(err)
		r.ended <- err
		close(r.ended) // a second end finds no error
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	r.base = strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
	t.Cleanup(func() { r.end(t) })
	return r
}

// end is a Ctrl-C, and may be repeated.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("stop: %v", err)
		}
		if said := r.logged.String(); said != "" {
			t.Logf("DBOS says:\n%s", said)
		}
	case <-time.After(patience):
		t.Error("the program did not stop")
	}
}

const aBody = `{"customerId":"cus-1","amountCents":12000,"currency":"KRW"}`

func post(t *testing.T, base, key, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/payments", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err) // not Fatal: requests are sent from other goroutines, too
		return 0, ""
	}
	defer response.Body.Close()
	answered, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(answered)
}

// postAndForget is a client whose server dies.
func postAndForget(ctx context.Context, base, key string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/payments", strings.NewReader(aBody))
	if err != nil {
		return
	}
	request.Header.Set("Idempotency-Key", key)
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
	}
}

// mustPay returns the bytes of a 201.
func mustPay(t *testing.T, base, key, body string) string {
	t.Helper()
	status, answered := post(t, base, key, body)
	if status != http.StatusCreated {
		t.Errorf("key %s: %d %s", key, status, answered)
	}
	return answered
}

// wantSucceeded counts the application's rows for a key.
func wantSucceeded(t *testing.T, url, key string, want int) {
	t.Helper()
	conn := pgtest.Connect(t, url)
	var rows, succeeded int
	err := conn.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE status = 'succeeded' AND psp_charge_id IS NOT NULL)
		FROM lab_dbos.payments WHERE idempotency_key = $1`, key).Scan(&rows, &succeeded)
	if err != nil {
		t.Fatal(err)
	}
	if rows != want || succeeded != want {
		t.Errorf("key %s has %d rows, %d succeeded; want %d", key, rows, succeeded, want)
	}
}
