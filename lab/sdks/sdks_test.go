// Package sdks has Stripe's own libraries take a tour of the mock of Stripe, and libraries that know nothing of Payonce
// verify its events. It is a module of its own: what the product is judged by must not depend on whether these
// libraries can be had. make sdks runs it.
package sdks

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	stripe84 "github.com/stripe/stripe-go/v84"
	stripe85 "github.com/stripe/stripe-go/v85"

	"payonce/demo/mockpsp"
	"payonce/demo/mockpsp/stripe"
)

// arrival is a webhook that has arrived.
type arrival struct{ Signature, Body string }

// events receives webhooks, and hands them to a tour that asks for them.
type events chan arrival

func (e events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		e <- arrival{r.Header.Get("Stripe-Signature"), string(body)}
		return
	}
	var all []arrival
	for until := `"type":"` + r.URL.Query().Get("until") + `"`; ; {
		select {
		case a := <-e:
			all = append(all, a)
			if strings.Contains(a.Body, until) {
				_ = json.NewEncoder(w).Encode(all)
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// tour runs a program against a mock of its own, whose account has a version of the API.
func tour(t *testing.T, version string, program *exec.Cmd) {
	t.Helper()
	received := httptest.NewServer(make(events, 1000))
	t.Cleanup(received.Close)
	psp, err := mockpsp.New(mockpsp.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = psp.Close() })
	c := stripe.DefaultConfig()
	c.APIVersion, c.SearchLag, c.WebhookURL = version, 0, received.URL+"/webhooks/stripe"
	dialect, err := stripe.New(psp, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialect.Close() })
	server := httptest.NewServer(dialect)
	t.Cleanup(server.Close)
	program.Env = append(os.Environ(), "STRIPE_URL="+server.URL, "STRIPE_KEY="+c.Secret, "EVENTS_URL="+received.URL,
		"WEBHOOK_SECRET="+c.WebhookSecrets[0])
	out, err := program.CombinedOutput()
	t.Logf("at version %s:\n%s", version, out)
	if err != nil {
		t.Fatal(err)
	}
}

// Both majors take the same tour: the text of the program differs in the number only.
func TestStripeGo(t *testing.T) {
	for major, version := range map[string]string{"v84": stripe84.APIVersion, "v85": stripe85.APIVersion} {
		t.Run(major, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("tour/main.go")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			other, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
			write(t, other, strings.ReplaceAll(string(text), "stripe-go/v85", "stripe-go/"+major))
			here, err := filepath.Abs("tour/main.go")
			if err != nil {
				t.Fatal(err)
			}
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {here: other}})
			if err != nil {
				t.Fatal(err)
			}
			write(t, overlay, string(replace))
			tour(t, version, exec.CommandContext(t.Context(), "go", "run", "-overlay", overlay, "./tour"))
		})
	}
}

// nodeModules is a folder of its own with a program and the libraries for Node, as package-lock.json says.
func nodeModules(t *testing.T, program string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	dir = t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", program} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	return dir
}

// The library for Node takes the same tour.
func TestStripeNode(t *testing.T) {
	t.Parallel()
	dir := nodeModules(t, "tour.mjs")
	in := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		return cmd
	}
	version, err := in("node", "-p", "require('stripe').API_VERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	tour(t, strings.TrimSpace(string(version)), in("node", "tour.mjs"))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
