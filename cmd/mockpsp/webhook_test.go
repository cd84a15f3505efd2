package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/demo/mockpsp"
)

// verifying answers 204 to what is signed with the demo's secret, and 401 to the rest. Arrived receives its statuses.
func verifying(t *testing.T) (url string, arrived chan int) {
	t.Helper()
	oracle, err := standardwebhooks.NewWebhook(mockpsp.DemoWebhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	arrived = make(chan int, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNoContent
		if body, err := io.ReadAll(r.Body); err != nil || oracle.Verify(body, r.Header) != nil {
			status = http.StatusUnauthorized
		}
		arrived <- status
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL, arrived
}

// silentCharge is a charge that nobody is told of.
func (s started) silentCharge(t *testing.T) (id string) {
	t.Helper()
	if response, err := post(t.Context(), s.url, "pm_silent_charged"); err == nil {
		_ = response.Body.Close()
		t.Fatalf("answered %s", response.Status)
	}
	return regexp.MustCompile(`ch_[a-z0-9]+`).FindString(ledger(t, s.url))
}

func TestWebhookIsSentByHandInEachMode(t *testing.T) {
	t.Parallel()
	receiver, arrived := verifying(t)
	running := start(t, environment(t, map[string]string{"MOCKPSP_WEBHOOK_URL": receiver, "MOCKPSP_HANG_LIMIT": "1ms"}))
	defer running.end(t)
	id := running.silentCharge(t)
	getenv := environment(t, map[string]string{"MOCKPSP_ADDR": strings.TrimPrefix(running.url, "http://")})
	sent := "sent " + strings.Replace(id, "ch_", "evt_", 1) + " charge.succeeded"
	for _, row := range []struct {
		mode, out string
		arrives   []int
	}{
		{"", sent + ": 204 No Content\n", []int{204}},
		{"send", sent + ": 204 No Content\n", []int{204}},
		{"resend", sent + ": 204 No Content\n", []int{204}},
		{"duplicate", strings.Repeat(sent+" (duplicate): 204 No Content\n", 2), []int{204, 204}},
		{"forge", sent + " (forge): 401 Unauthorized\n", []int{401}},
		{"stale", sent + " (stale): 401 Unauthorized\n", []int{401}},
	} {
		args := []string{"webhook", "--charge", id}
		if row.mode != "" {
			args = append(args, "--mode="+row.mode)
		}
		var out bytes.Buffer
		if err := run(t.Context(), args, getenv, &out); err != nil {
			t.Fatalf("%s: %v", row.mode, err)
		}
		var got []int
		for len(arrived) > 0 {
			got = append(got, <-arrived)
		}
		if out.String() != row.out || !cmp.Equal(got, row.arrives) {
			t.Errorf("%s: arrived %v, printed %q, want %v and %q", row.mode, got, out.String(), row.arrives, row.out)
		}
	}
}

func TestPrintedWebhookArrivesWhenAShellRunsIt(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	receiver, arrived := verifying(t)
	running := start(t, environment(t, map[string]string{"MOCKPSP_WEBHOOK_URL": receiver, "MOCKPSP_HANG_LIMIT": "1ms"}))
	defer running.end(t)
	var out bytes.Buffer
	args := []string{"webhook", "--charge", running.silentCharge(t), "--mode", "print", "--addr",
		strings.TrimPrefix(running.url, "http://")}
	if err := run(t.Context(), args, environment(t, nil), &out); err != nil {
		t.Fatal(err)
	}
	if len(arrived) != 0 {
		t.Error("printing has sent it")
	}
	if said, err := exec.CommandContext(t.Context(), "sh", "-euc", out.String()).CombinedOutput(); err != nil ||
		len(arrived) != 1 || <-arrived != 204 {
		t.Errorf("%v\n%s\n%s", err, out.String(), said)
	}
}

func TestWebhookCommandSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	running := start(t, environment(t, map[string]string{"MOCKPSP_HANG_LIMIT": "1ms"})) // no receiver
	id := running.silentCharge(t)
	getenv := environment(t, map[string]string{"MOCKPSP_ADDR": strings.TrimPrefix(running.url, "http://")})
	deaf := start(t, environment(t, map[string]string{"MOCKPSP_HANG_LIMIT": "1ms",
		"MOCKPSP_WEBHOOK_URL": "http://127.0.0.1:1"}))
	for want, args := range map[string][]string{
		"--charge is required":           {},
		"none of send, resend":           {"--charge", id, "--mode", "resent"},
		`argument "more" is not known`:   {"--charge", id, "more"},
		"-refund":                        {"--refund", id},
		"set MOCKPSP_WEBHOOK_URL":        {"--charge", id},
		"there is no such charge":        {"--charge", "ch_none"},
		"is the mock PSP running there?": {"--charge", id, "--addr", "127.0.0.1:1"},
		"the receiver did not answer evt": {"--charge", deaf.silentCharge(t), "--addr",
			strings.TrimPrefix(deaf.url, "http://")},
	} {
		if err := run(t.Context(), append([]string{"webhook"}, args...), getenv, io.Discard); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	running.end(t)
	deaf.end(t)
}

func TestWebhookHelpNamesEachMode(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"webhook", "--help"}, environment(t, nil), &out); err != nil {
		t.Fatal(err)
	}
	for mode := range webhookModes {
		if !strings.Contains(out.String(), " "+mode+" ") {
			t.Errorf("the help lacks %s", mode)
		}
	}
}
