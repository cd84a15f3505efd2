package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"payonce/demo/mockpsp"
	"payonce/demo/mockpsp/stripe"
	"payonce/internal/cli"
	"payonce/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// started runs the command until stop is called; ended receives what run returned.
type started struct {
	url   string
	stop  context.CancelFunc
	ended <-chan error
}

func environment(t *testing.T, further map[string]string) func(string) string {
	set := map[string]string{"MOCKPSP_ADDR": "127.0.0.1:0",
		"MOCKPSP_LEDGER": filepath.Join(t.TempDir(), "ledger.jsonl")}
	for name, value := range further {
		set[name] = value
	}
	return func(name string) string { return set[name] }
}

func start(t *testing.T, getenv func(string) string) started {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	reader, writer := io.Pipe()
	go func() {
		ended <- run(ctx, nil, getenv, writer)
		_ = writer.Close()
	}()
	found := make(chan string, 1)
	go func() {
		var seen bytes.Buffer
		_, _ = io.Copy(io.MultiWriter(&seen, urlFinder{&seen, found}), reader)
	}()
	select {
	case url := <-found:
		return started{url, stop, ended}
	case err := <-ended:
		t.Fatalf("ended: %v", err)
	case <-time.After(patience):
		t.Fatal("did not start")
	}
	panic("unreachable")
}

func (s started) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("ended: %v", err)
	}
}

// urlFinder reports the address once it has been printed.
type urlFinder struct {
	seen  *bytes.Buffer
	found chan string
}

func (f urlFinder) Write(p []byte) (int, error) {
	if match := regexp.MustCompile(`url=(\S+)\s`).FindSubmatch(f.seen.Bytes()); match != nil {
		select {
		case f.found <- string(match[1]):
		default:
		}
	}
	return len(p), nil
}

func post(ctx context.Context, url, method string) (*http.Response, error) {
	body := fmt.Sprintf(`{"amountCents":1000,"currency":"KRW","paymentMethod":%q,"reference":"pay_1"}`, method)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{
		"Authorization": {"Bearer demo-psp-secret"}, "Psp-Account": {"acme"},
		"Idempotency-Key": {"key-" + method}, "Content-Type": {"application/json"},
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Do(request)
}

func ledger(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url + "/_ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestStopEndsHeldRequestsAndKeepsTheLedger(t *testing.T) {
	t.Parallel()
	getenv := environment(t, nil)
	first := start(t, getenv)
	hanging := make(chan error, 1)
	go func() {
		response, err := post(context.Background(), first.url, "pm_timeout_charged")
		if err == nil {
			_ = response.Body.Close()
		}
		hanging <- err
	}()
	wait.Until(t, "the charge", func() bool { return strings.Contains(ledger(t, first.url), "pm_timeout_charged") })
	first.stop()
	select {
	case err := <-first.ended:
		if err != nil {
			t.Errorf("stopped with: %v", err)
		}
	case <-time.After(5 * time.Second): // a held request would use up the whole limit
		t.Fatal("did not stop")
	}
	if err := <-hanging; err == nil {
		t.Error("the held request was answered")
	}
	second := start(t, getenv)
	if got := ledger(t, second.url); !strings.Contains(got, "key-pm_timeout_charged") {
		t.Errorf("after a restart: %s", got)
	}
	second.end(t)
}

func TestTakenPortNamesTheSetting(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	getenv := environment(t, map[string]string{"MOCKPSP_ADDR": listener.Addr().String()})
	err = run(t.Context(), nil, getenv, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "is taken by another process; set MOCKPSP_ADDR") ||
		!strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("got: %v", err)
	}
}

func TestTakenLedgerNamesTheSetting(t *testing.T) {
	t.Parallel()
	getenv := environment(t, nil)
	first := start(t, getenv)
	err := run(t.Context(), nil, getenv, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "MOCKPSP_LEDGER") {
		t.Errorf("got: %v", err)
	}
	first.end(t)
}

func TestSettingsReachThePSP(t *testing.T) {
	t.Parallel()
	running := start(t, environment(t, map[string]string{"MOCKPSP_SECRET": "another", "MOCKPSP_HANG_LIMIT": "1ms"}))
	response, err := post(t.Context(), running.url, "pm_ok")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("the default secret is answered %d", response.StatusCode)
	}
	running.end(t)
}

func TestDefaultsAreThoseOfTheDemo(t *testing.T) {
	t.Parallel()
	got, err := readSettings(func(string) string { return "" })
	if err != nil || got.Seed == 0 {
		t.Fatalf("seed %d, error %v", got.Seed, err)
	}
	got.Seed = 0
	demo, dialect := mockpsp.DefaultConfig(), stripe.DefaultConfig()
	want := settings{
		Addr: "127.0.0.1:8082", Ledger: "./mockpsp-ledger.jsonl", Secret: demo.Secret,
		SlowDelay: demo.SlowDelay, HangLimit: demo.HangLimit, LateDelay: demo.LateDelay,
		WebhookSecret: demo.WebhookSecret, WebhookDelay: demo.WebhookDelay, WebhookSchedule: demo.WebhookSchedule,
		StripeSecret: stripe.DemoSecret, StripeWebhookSecrets: []string{stripe.DemoWebhookSecret},
		StripeActionDelay: dialect.ActionDelay, StripeAPIVersion: dialect.APIVersion,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWebhookSettingsReachThePSP(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Webhook-Id")
		panic(http.ErrAbortHandler) // no answer, so that the schedule goes on
	}))
	defer receiver.Close()
	running := start(t, environment(t, map[string]string{
		"MOCKPSP_WEBHOOK_URL": receiver.URL, "MOCKPSP_WEBHOOK_DELAY": "1ms", "MOCKPSP_WEBHOOK_SCHEDULE": "1ms,2ms",
	}))
	response, err := post(t.Context(), running.url, "pm_ok")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	for range 3 {
		if id := wait.For(t, "a webhook", arrived); !strings.HasPrefix(id, "evt_") {
			t.Errorf("id %q", id)
		}
	}
	running.end(t)
}

func TestBadWebhookSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"MOCKPSP_WEBHOOK_URL": "localhost", "MOCKPSP_WEBHOOK_SECRET": "secret", "MOCKPSP_WEBHOOK_SCHEDULE": "-1s",
		"MOCKPSP_WEBHOOK_DELAY": "-1s",
	} {
		set := map[string]string{"MOCKPSP_WEBHOOK_URL": "http://127.0.0.1:1"}
		set[name] = value
		err := run(t.Context(), nil, environment(t, set), io.Discard)
		if err == nil || !strings.Contains(strings.ToLower(strings.ReplaceAll(err.Error(), " ", "_")),
			strings.ToLower(strings.TrimPrefix(name, "MOCKPSP_"))) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadSettingAndArgumentAreNamed(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"soon", "-1s"} {
		err := run(t.Context(), nil, environment(t, map[string]string{"MOCKPSP_SLOW_DELAY": value}), io.Discard)
		if err == nil || !strings.Contains(err.Error(), "MOCKPSP_SLOW_DELAY") {
			t.Errorf("got: %v", err)
		}
	}
	for _, args := range [][]string{{"--port"}, {"serve"}, {"healthcheck", "now"}, {"--port", "1"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, environment(t, nil), &out); cli.Code(err) != 2 ||
			!strings.Contains(err.Error(), strings.Join(args, " ")) || out.Len() > 0 {
			t.Errorf("%q: exit code %d, %v", args, cli.Code(err), err)
		}
	}
}

func TestVersionNeedsNoSettings(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--version", "-version", "version"} {
		var out bytes.Buffer
		getenv := environment(t, map[string]string{"MOCKPSP_SEED": "garbage"})
		if err := run(t.Context(), []string{arg}, getenv, &out); err != nil ||
			!regexp.MustCompile(`^mockpsp \S.*, go\S+\n$`).MatchString(out.String()) {
			t.Errorf("%s: %v %q", arg, err, out.String())
		}
	}
}

func TestHelpListsEverySetting(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, environment(t, nil), &out); err != nil {
		t.Fatal(err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[settings]()) {
		for _, tag := range []string{"env", "envDefault", "desc"} {
			value := field.Tag.Get(tag)
			if mayBeEmpty := tag == "envDefault" && slices.Contains(
				[]string{"WebhookURL", "StripeAddr", "StripeWebhookURL"}, field.Name); value == "" && mayBeEmpty {
				continue
			}
			if value == "" || !strings.Contains(out.String(), value) {
				t.Errorf("%s: the help lacks its %s %q", field.Name, tag, value)
			}
		}
	}
}

func TestHealthcheckTellsWhetherThePSPAnswers(t *testing.T) {
	t.Parallel()
	running := start(t, environment(t, nil))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(running.url, "http://"))
	for _, addr := range []string{"127.0.0.1:" + port, ":" + port, "0.0.0.0:" + port} {
		getenv := environment(t, map[string]string{"MOCKPSP_ADDR": addr})
		if err := run(t.Context(), []string{"healthcheck"}, getenv, io.Discard); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	running.end(t)
	getenv := environment(t, map[string]string{"MOCKPSP_ADDR": "127.0.0.1:" + port})
	if err := run(t.Context(), []string{"healthcheck"}, getenv, io.Discard); err == nil {
		t.Error("a stopped PSP is called healthy")
	}
}

// Settings that are read have no negative pause, and those that are not name the variable that is wrong and no field of
// ours.
func FuzzSettings(f *testing.F) {
	f.Add("MOCKPSP_SEED", "7", "MOCKPSP_WEBHOOK_SCHEDULE", "1s,2s")
	f.Add("MOCKPSP_SLOW_DELAY", "-1s", "MOCKPSP_LATE_DELAY", "soon")
	f.Add("MOCKPSP_WEBHOOK_SCHEDULE", "1s,,2s", "MOCKPSP_SEED", "-1")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		environment := map[string]string{name1: value1, name2: value2}
		s, err := readSettings(func(name string) string { return environment[name] })
		if err != nil {
			if !strings.Contains(err.Error(), "MOCKPSP_") {
				t.Fatalf("%q is refused with %v", environment, err)
			}
			return
		}
		if s.SlowDelay < 0 || s.HangLimit < 0 || s.LateDelay < 0 || s.WebhookDelay < 0 || s.Seed == 0 ||
			len(s.WebhookSchedule) == 0 {
			t.Fatalf("%q is taken as %+v", environment, s)
		}
	})
}
