package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"payonce/test/heldport"
	"payonce/test/pgtest"
)

var update = flag.Bool("update", false, "write the tour's answers into the README")

const readme = "../../README.md"

// patient makes the tour's pauses longer by a half: they are for the reconciler, and a machine that runs all tests at
// once is slower than a reader's. What is answered after a pause is the same after a longer one.
const patient = "sleep() { command sleep $(($1 * 3 / 2)); }\n"

// What the README has to paste is run as it stands, against the demo as it starts, and its answers must be those that
// the README shows.
func TestReadmeTourAnswersAsShown(t *testing.T) {
	t.Parallel()
	answersAsShown(t, "tour", "answers", "curl")
}

func TestReadmeWebhookAnswersAsShown(t *testing.T) {
	t.Parallel()
	answersAsShown(t, "webhook", "webhook answers", "curl", "openssl")
}

// The page of the API has the same recipe.
func TestDocsHaveTheWebhookOfTheReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../internal/httpapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	recipe, _ := block(t, string(page), "webhook")
	const margin = "        "
	if indented := margin + strings.ReplaceAll(strings.TrimSpace(recipe), "\n", "\n"+
		margin); !strings.Contains(string(document), indented) {
		t.Errorf("openapi.yaml lacks this, as a part of the webhook's description:\n%s", indented)
	}
}

func answersAsShown(t *testing.T, paste, answers string, tools ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: what the README shows waits for leases, webhooks and lookups")
	}
	for _, tool := range append(tools, "bash") {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the %s needs %s", paste, tool)
		}
	}
	page, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := block(t, string(page), paste)
	shown, _ := block(t, string(page), answers)

	d := startDemo(t, pgtest.DataDir(t))
	script := patient + strings.NewReplacer("localhost:8080", d.public, "localhost:8081", d.operator, "localhost:8082",
		d.psp).Replace(text)
	out, err := exec.CommandContext(t.Context(), "bash", "-euc", script).CombinedOutput()
	if err != nil {
		t.Fatalf("run the %s: %v\n%s", paste, err, out)
	}
	got := strings.NewReplacer(d.public, "localhost:8080", d.operator, "localhost:8081", d.psp,
		"localhost:8082").Replace(strings.TrimSpace(string(out)) + "\n")
	if *update {
		show(t, answers, got)
		return
	}
	if normal(got) != normal(shown) {
		t.Errorf("the %s answers\n%s\nthe README shows\n%s\nif the new answers are right: go test ./cmd/demo -run Readme -update", paste, got, shown)
	}
}

// writing lets one test after the other change the README.
var writing sync.Mutex

// show writes answers into the README.
func show(t *testing.T, answers, got string) {
	t.Helper()
	writing.Lock()
	defer writing.Unlock()
	page, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	shown, at := block(t, string(page), answers)
	if err := os.WriteFile(readme, []byte(string(page)[:at]+got+string(page)[at+len(shown):]), 0o600); err != nil {
		t.Fatal(err)
	}
}

// block finds the fenced block behind a marker, and where it begins.
func block(t *testing.T, page, name string) (text string, at int) {
	t.Helper()
	match := regexp.MustCompile("(?s)<!-- " + name + " -->\n```[a-z]*\n(.*?)```\n").FindStringSubmatchIndex(page)
	if match == nil {
		t.Fatalf("the README has no block %q", name)
	}
	return page[match[2]:match[3]], match[2]
}

// normal takes out what differs between two runs.
func normal(s string) string {
	for _, differing := range []string{
		`(pay|ch|req)_[0-9A-Za-z]+`, `(tour|by-hand)-[0-9]+`, `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`,
		`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, `"ageSeconds":[0-9]+`,
	} {
		s = regexp.MustCompile(differing).ReplaceAllString(s, "…")
	}
	return s
}

type demo struct {
	public, operator, psp, reconciler string
	stop                              func() error
	out                               *bytes.Buffer
}

// startDemo runs the demo on free ports until the test ends, and returns when it is ready.
func startDemo(t *testing.T, dir string, settings ...string) demo {
	t.Helper()
	d := demo{public: freeAddress(t), operator: freeAddress(t), psp: freeAddress(t), reconciler: freeAddress(t),
		out: &bytes.Buffer{}}
	env := map[string]string{
		"DEMO_DATA_DIR": dir, "HTTP_ADDR": d.public, "OPERATOR_ADDR": d.operator, "MOCKPSP_ADDR": d.psp,
		"PUBLIC_URL": "http://localhost:8080", "PATH": os.Getenv("PATH"), "PG_BINDIR": os.Getenv("PG_BINDIR"),
		"HOME": os.Getenv("HOME"), "RECONCILER_ADDR": d.reconciler,
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		env[name] = value
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, announce := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, nil, func(name string) string { return env[name] }, announce, os.Stderr)
		_ = announce.CloseWithError(fmt.Errorf("the demo has ended: %w", orEOF(err)))
		ended <- err
	}()
	stopped := false
	d.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			return fmt.Errorf("the demo did not stop")
		}
	}
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("stop the demo: %v", err)
		}
	})
	buffer := make([]byte, 4096)
	for !strings.Contains(d.out.String(), "Payonce is ready") {
		n, err := ready.Read(buffer)
		d.out.Write(buffer[:n])
		if err != nil {
			t.Fatalf("start the demo: %v\n%s", err, d.out)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, ready) }()
	return d
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := heldport.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Close)
	return port.Address
}
