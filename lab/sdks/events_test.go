package sdks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	svix "github.com/svix/svix-webhooks/go"

	"payonce/test/heldport"
	"payonce/test/wait"
)

// delivery is an event as Payonce has delivered it, and the secrets that its endpoint has at that time.
type delivery struct {
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Secrets []string          `json:"secrets"`
}

// merchant is a tenant of a demo, and its server.
type merchant struct {
	t     *testing.T
	api   string
	heard chan delivery
}

// newMerchant starts a demo: the API, the reconciler and a PostgreSQL.
func newMerchant(t *testing.T) *merchant {
	t.Helper()
	program, addresses := filepath.Join(t.TempDir(), "demo"), map[string]string{}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./cmd/demo")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the demo: %v\n%s", err, out)
	}
	// Not t.TempDir: it is closed to others, and as root PostgreSQL runs as another user.
	data, err := os.MkdirTemp("", "payonce")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	demo := exec.Command(program)
	demo.Env = append(demo.Environ(), "DATABASE_URL=", "DEMO_DATA_DIR="+filepath.Join(data, "demo"))
	for _, name := range []string{"HTTP_ADDR", "OPERATOR_ADDR", "MOCKPSP_ADDR", "RECONCILER_ADDR", "NAIVE_ADDR"} {
		addresses[name] = heldport.Address(t)
		demo.Env = append(demo.Env, name+"="+addresses[name])
	}
	demo.Stderr = t.Output()
	said, err := demo.StdoutPipe()
	if err == nil {
		err = demo.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = demo.Process.Signal(syscall.SIGINT)
		_, _ = io.Copy(t.Output(), said)
		_ = demo.Wait()
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "Payonce is ready") {
	}
	return &merchant{t, "http://" + addresses["HTTP_ADDR"], make(chan delivery, 1)}
}

// ServeHTTP takes an event.
func (m *merchant) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	d := delivery{Headers: map[string]string{}, Body: string(body)}
	for name := range r.Header {
		d.Headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	m.heard <- d
}

// post calls the API.
func (m *merchant) post(path, body string) (answer struct{ EndpointID, Secret, PaymentID string }) {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.api+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer demo-acme-key")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", m.t.Name())
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode/100 != 2 {
		m.t.Fatalf("%s: %s: %v", path, res.Status, err)
	}
	return answer
}

// deliveries are two of one event: with one secret, and during a rotation with two.
func deliveries(t *testing.T) []delivery {
	t.Helper()
	m := newMerchant(t)
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	endpoint := m.post("/webhook-endpoints", `{"url":"`+server.URL+`"}`)
	m.post("/payments", `{"customerId":"cus-1","amountCents":1200,"currency":"USD","description":"Käse & <Brot> 🧀"}`)
	one := wait.For(t, "the event", m.heard)
	one.Secrets = []string{endpoint.Secret}
	rotated := m.post("/webhook-endpoints/"+endpoint.EndpointID+"/rotate", `{}`)
	m.post("/events/"+one.Headers["webhook-id"]+"/redeliver", `{}`)
	two := wait.For(t, "the event again", m.heard)
	two.Secrets = []string{endpoint.Secret, rotated.Secret}
	if n := len(strings.Fields(two.Headers["webhook-signature"])); n != len(two.Secrets) || one.Body != two.Body {
		t.Fatalf("during the rotation there are %d signatures, and the bodies are\n%s\n%s", n, one.Body, two.Body)
	}
	return []delivery{one, two}
}

// Libraries that know nothing of Payonce verify its events, and refuse a body that was changed.
func TestLibrariesVerifyEvents(t *testing.T) {
	all := deliveries(t)
	t.Run("Go", func(t *testing.T) { verifyInGo(t, all) })
	t.Run("Node", func(t *testing.T) {
		dir := nodeModules(t, "events.mjs")
		verifyBy(t, all, dir, "node", "events.mjs")
	})
	t.Run("Python", func(t *testing.T) {
		verifyBy(t, all, ".", "python3", "events.py")
	})
}

// verifier is what both libraries for Go have.
type verifier interface {
	Verify(body []byte, headers http.Header) error
}

func verifyInGo(t *testing.T, all []delivery) {
	for _, d := range all {
		headers := http.Header{}
		for name, value := range d.Headers {
			headers.Set(name, value)
		}
		for i, secret := range d.Secrets {
			standard, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			svixs, err := svix.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			for name, library := range map[string]verifier{"standard-webhooks": standard, "svix": svixs} {
				if err := library.Verify([]byte(d.Body), headers); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if library.Verify([]byte(d.Body+" "), headers) == nil {
					t.Errorf("%s has taken a body that was changed", name)
				}
				t.Logf("%s: %s, secret %d of %d", name, d.Headers["webhook-id"], i+1, len(d.Secrets))
			}
		}
	}
}

// verifyBy gives a program the deliveries. It ends with an error if one is not verified, or a changed one is.
func verifyBy(t *testing.T, all []delivery, dir, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	input, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), name, args...)
	program.Dir, program.Stdin = dir, bytes.NewReader(input)
	out, err := program.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(out), "verified"); lines == 0 {
		t.Error("it has verified nothing")
	}
}
