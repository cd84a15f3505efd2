package supervisor

import (
	"context"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"payonce/demo/windows"
	"payonce/test/pgtest"
)

// stopAt sends a payment and waits until it is held at a window.
func stopAt(t *testing.T, d demo, window string) (key string) {
	t.Helper()
	key = press(t, d, "stop", "window="+window)
	await(t, d, `Held at window `+window+`: .*name="key" value="`+key+`"`)
	return key
}

// seenAt matches the sentence about a hold that is over.
func seenAt(window, how, outcome string) string {
	return `What was seen[^>]*>\s*<p[^>]*>At ` + window + ` \([^)]*\), ` + how + `; ` + outcome + `\.</p>`
}

// told matches what the client was told about its payment at a window.
func told(window, key, answer string) string {
	return `pay, and stop at window ` + window + ` \(pm_ok\)</td><td>` + answer +
		`[^\n]*<code>` + key + `</code>`
}

// ofPayment are the windows on the path of the payment itself. The others are those of its webhook.
func ofPayment(t *testing.T) (ids []string) {
	t.Helper()
	for _, w := range windows.Native().Groups()[0].Windows {
		ids = append(ids, w.ID)
	}
	if len(ids) != 6 {
		t.Fatalf("the windows of a payment are %q", ids)
	}
	return ids
}

func TestPaymentHeldAtAWindowGoesOnAsIfNothingHadHappened(t *testing.T) {
	if testing.Short() {
		t.Skip("long: one more demo")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	for _, window := range ofPayment(t) {
		key := stopAt(t, d, window)
		charged := window == "3b" || window == "3c" || window == "4"
		if n := charges(t, d, key); n > 0 != charged {
			t.Errorf("window %s: the PSP has charged %d times when the payment is held", window, n)
		}
		press(t, d, "held", "action=go-on", "key="+key)
		await(t, d, told(window, key, "201 succeeded")) // a webhook may be faster now, and then this is a replay
		await(t, d, seenAt(window, "you let it go on", `(the API|a webhook) completed the key [a-z0-9 ]*: charged once`))
		if n := charges(t, d, key); n != 1 {
			t.Errorf("window %s: the PSP has charged %d times", window, n)
		}
	}
	await(t, d, running("API", "0"))
}

func TestAPIKilledAtAnyWindowChargesOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for the ends of leases")
	}
	d := startDemo(t, pgtest.MigratedDir(t))
	keys := map[string]string{}
	for i, window := range ofPayment(t) {
		key := stopAt(t, d, window)
		press(t, d, "held", "action=kill", "key="+key)
		await(t, d, told(window, key, "connection lost"))
		await(t, d, running("API", strconv.Itoa(i+1)))
		if window == "3c" {
			await(t, d, seenAt("3c", "the API was killed", "a webhook completed the key (at once|[0-9]+ s later): charged once"))
		}
		keys[window] = key
	}
	for window, key := range keys {
		res := payUntilDone(t, d, key, "pm_ok")
		// What was completed, or found, is replayed. What was lost before the PSP had it is a new execution.
		if replayed := res.header.Get("Idempotent-Replayed") == "true"; replayed != (window == "3b" || window == "3c" ||
			window == "4") {
			t.Errorf("window %s: replayed is %t", window, replayed)
		}
		if n := charges(t, d, key); n != 1 {
			t.Errorf("window %s: the PSP has charged %d times", window, n)
		}
	}
}

func TestCutAndFailedMessagesChargeOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every window of a message")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	const webhookWasFaster = "201 succeeded"
	for _, c := range []struct{ window, action, answer string }{
		{"1", "cut", "(201|503) "}, {"3b", "cut", "(202 processing;|" + webhookWasFaster + ")"},
		{"3b", "psp-500", "(202 processing;|" + webhookWasFaster + ")"},
		{"3c", "cut", "201 succeeded"},
	} {
		key := stopAt(t, d, c.window)
		press(t, d, "held", "action="+c.action, "key="+key)
		await(t, d, told(c.window, key, c.answer))
		payUntilDone(t, d, key, "pm_ok")
		if n := charges(t, d, key); n != 1 {
			t.Errorf("%s at window %s: the PSP has charged %d times", c.action, c.window, n)
		}
	}
	await(t, d, running("API", "0"))
}

// Both faults before the PSP has the charge. It takes the grace period to know that it has none.
func TestChargeThatNeverArrivesIsMadeOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for the grace period")
	}
	d := startDemo(t, pgtest.MigratedDir(t))
	keys := map[string]string{}
	for _, action := range []string{"cut", "psp-500"} {
		keys[action] = stopAt(t, d, "3a")
		press(t, d, "held", "action="+action, "key="+keys[action])
		await(t, d, told("3a", keys[action], "202 processing;"))
		if n := charges(t, d, keys[action]); n != 0 {
			t.Errorf("%s: the PSP has charged %d times", action, n)
		}
	}
	for action, key := range keys {
		payUntilDone(t, d, key, "pm_ok")
		if n := charges(t, d, key); n != 1 {
			t.Errorf("%s: the PSP has charged %d times", action, n)
		}
	}
}

func TestWebhookHeldAtItsWindowsIsSentAgainAfterAKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for webhooks and restarts")
	}
	d := startDemo(t, pgtest.MigratedDir(t))
	for i, window := range []string{"6", "7"} {
		key := stopAt(t, d, window)
		await(t, d, told(window, key, "201 succeeded<"))
		press(t, d, "held", "action=go-on", "key="+key)
		key = stopAt(t, d, window)
		press(t, d, "held", "action=kill", "key="+key)
		await(t, d, running("API", strconv.Itoa(i+1)))
		if res := payUntilDone(t, d, key, "pm_ok"); res.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("window %s: the same request again is not a replay", window)
		}
	}
}

// The PSP has a limit for an answer of its own. If that were over, it would send the webhook again, and the API would
// store it while the page says that it is not stored.
func TestWebhookIsNotSentAgainWhileItIsHeld(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for the limit of a hold")
	}
	for dialect, settings := range map[string][]string{"native": nil, "Stripe": {inStripesDialect}} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			d := startDemo(t, pgtest.MigratedDir(t), append(settings, "DEMO_HOLD=9s")...)
			key := stopAt(t, d, "6")
			await(t, d, `window 6</td><td>it went on by itself after 9 seconds<`)
			awaitWebhook(t, d, key)
			hooks := ask(t, http.MethodGet, d.psp, "/_webhooks", "", nil).body
			if strings.Contains(hooks, `"try":2`) {
				t.Errorf("a webhook was sent again: %s", hooks)
			}
		})
	}
}

// Whatever has a deadline of its own waits for a payment that is held: the lease, the API with the PSP and with the
// database, the client, and those who would complete the key meanwhile. One of the two holds is longer than each of
// these.
func TestHeldPaymentOutlivesItsLeaseAndGoesOnByItself(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for the limits of a hold")
	}
	for _, c := range []struct {
		dialect  string
		windows  []string
		settings []string
	}{
		{"native", []string{"3a", "3c", "4"}, []string{"DEMO_HOLD=12s", "SCAN_EVERY=2s"}},
		{"Stripe", []string{"3c"}, []string{"DEMO_HOLD=35s", inStripesDialect}},
	} {
		t.Run(c.dialect, func(t *testing.T) {
			t.Parallel()
			d := startDemo(t, pgtest.MigratedDir(t), append(c.settings, "LEASE=6s", "PSP_TIMEOUT=2s")...)
			for _, window := range c.windows {
				key := stopAt(t, d, window)
				await(t, d, `window `+window+`</td><td>it went on by itself after [0-9]+ seconds<`)
				await(t, d, told(window, key, "201 succeeded<"))
				when := "(at once|1 s later)"
				if window == "4" {
					when = "before that"
				}
				await(t, d, seenAt(window, "it went on by itself after [0-9]+ seconds",
					"the API completed the key "+when+": charged once"))
				if row := rowOf(t, d, key); strings.Contains(row, `"to":"unknown"`) ||
					!strings.Contains(row, `"actor":"owner"`) {
					t.Errorf("window %s: the key was lost, or somebody else has completed it: %s", window, row)
				}
			}
			metrics := ask(t, http.MethodGet, d.operator, "/metrics", "", nil).body
			if !strings.Contains(metrics, "\npayonce_commit_ambiguous_total 0\n") {
				t.Error("the API has stopped waiting for the database")
			}
		})
	}
}

func TestOnePaymentIsHeldAtATime(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: one more demo")
	}
	d := startDemo(t, pgtest.MigratedDir(t), "DEMO_HOLD=5s")
	held := stopAt(t, d, "4")
	second := press(t, d, "stop", "window=1", "key="+held)
	await(t, d, `pay, and stop at window 1</td><td>not sent: window 4 is held, and there is one at a time`)
	if second != held {
		t.Errorf("the page shows %q, want %q", second, held)
	}
	// Another payment passes the window meanwhile.
	if res := sendOnce(t, d.public, survivor, "pm_ok"); res.status != http.StatusCreated {
		t.Errorf("another payment: %d %s", res.status, res.body)
	}
	press(t, d, "held", "action=go-on", "key="+held)

	// Nobody comes to the window of a webhook, if there is no webhook.
	press(t, d, "faults", "preset=no-webhooks")
	press(t, d, "stop", "window=6")
	await(t, d, `will stop at window 6`)
	press(t, d, "held", "action=go-on")
	await(t, d, `at the window: Go on</td><td>not done: no payment is held at the moment`)
	await(t, d, seenAt("6", "no payment has come here within 5 seconds",
		"the API completed the key before that: charged once"))
	press(t, d, "held", "action=dismiss")
	if page := ask(t, http.MethodGet, d.operator, "/demo/", "", nil).body; strings.Contains(page, "What was seen") {
		t.Error("the sentence is still there")
	}
}

func TestActionsThatDoNotFitTheWindowAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("long: one more demo")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	key := stopAt(t, d, "1")
	press(t, d, "held", "action=psp-500", "key="+key)
	await(t, d, `at the window: PSP 500</td><td>not done: this cannot happen at window 1`)
	for _, bad := range []string{"stop|window=99", "stop|", "held|action=burn", "held|"} {
		path, form, _ := strings.Cut(bad, "|")
		if res := ask(t, http.MethodPost, d.operator, "/demo/"+path, form, nil); res.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, res.status, res.body)
		}
	}
	// The other button kills the same process.
	press(t, d, "kill-api", "key="+key)
	await(t, d, `window 1</td><td>the API has ended, and what was held is lost with it`)
	payUntilDone(t, d, key, "pm_ok")
	if n := charges(t, d, key); n != 1 {
		t.Errorf("the PSP has charged %d times", n)
	}
}

func TestCtrlCLetsAHeldPaymentGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("long: one more demo")
	}
	t.Parallel()
	dir := pgtest.MigratedDir(t)
	p := startProcess(t, dir)
	pids := p.children(t)
	key := stopAt(t, p.demo, "3c")
	press(t, p.demo, "held", "action=pause", "key="+key)
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := p.ended(t); err != nil {
		t.Errorf("the demo: %v", err)
	}
	gone(t, pids)
	next := startDemo(t, dir)
	if res := payUntilDone(t, next, key, "pm_ok"); res.header.Get("Idempotent-Replayed") != "true" {
		t.Error("the payment was not finished")
	}
}

func TestDemoKilledWhileAPaymentIsHeldLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it kills a demo, and waits for the end of its children")
	}
	t.Parallel()
	dir := pgtest.MigratedDir(t)
	p := startProcess(t, dir)
	pids := p.children(t)
	key := stopAt(t, p.demo, "3c")
	press(t, p.demo, "held", "action=pause", "key="+key)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.ended(t)
	gone(t, pids)
}

func TestNoWindowsBeforeAServerThatIsNotOurs(t *testing.T) {
	if testing.Short() {
		t.Skip("long: one more demo")
	}
	t.Parallel()
	server := pgtest.OwnServer(t, false)
	d := startDemo(t, pgtest.DataDir(t), "DATABASE_URL="+server.URL("postgres"))
	if res := ask(t, http.MethodGet, d.operator, "/demo/", "", nil); strings.Contains(res.body, "crash window") {
		t.Error("the page offers to stop at a window")
	}
	for _, path := range []string{"/demo/stop", "/demo/held"} {
		if res := ask(t, http.MethodPost, d.operator, path, "window=1", nil); res.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.status)
		}
	}
}

// A program that people run has no flags of tests, and no code of tests.
func TestDemoDoesNotLinkPackageTesting(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(out)) {
		if strings.TrimSpace(name) == "testing" {
			t.Error("it does")
		}
	}
}
