package supervisor

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/test/heldport"
	"payonce/test/pgtest"
)

// patience bounds each wait for an event.
const patience = time.Minute

// pollEvery is the pause between two looks at what tells nobody that it has changed.
const pollEvery = 10 * time.Millisecond

// press sends a form of the page, as a browser without a script would, and gives the key that the page shows then.
func press(t *testing.T, d demo, button string, fields ...string) (key string) {
	t.Helper()
	res := ask(t, http.MethodPost, d.operator, "/demo/"+button, strings.Join(fields, "&"), nil)
	if res.status != http.StatusSeeOther {
		t.Fatalf("%s: %d %s", button, res.status, res.body)
	}
	to, err := url.Parse(res.header.Get("Location"))
	if err != nil || to.Path != "/demo/" {
		t.Fatalf("%s leads to %q: %v", button, to, err)
	}
	return to.Query().Get("key")
}

// deeds do all that others do to a payment.
func deeds(t *testing.T, d demo, key string) {
	t.Helper()
	for _, deed := range []string{"refund", "fail-refund", "dispute", "win", "dispute", "lose", "pay-out"} {
		res := ask(t, http.MethodPost, d.operator, "/demo/others", "key="+key+"&deed="+deed, nil)
		if to := res.header.Get("Location"); !strings.HasPrefix(to, "/console/payments/pay_") {
			t.Errorf("%s: %d %s leads to %q", deed, res.status, res.body, to)
		}
	}
	press(t, d, "others", "key="+key, "deed=win")
	await(t, d, `Win</td><td>not done: the mock PSP answered 4`)
}

type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends one request on a connection of its own, and follows no redirect.
func ask(t *testing.T, method, address, path, form string, header map[string]string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	if host := header["Host"]; host != "" {
		req.Host = host
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// await reads the page's stream until the panel matches, and gives what the groups have found.
func await(t *testing.T, d demo, pattern string) []string {
	t.Helper()
	wanted := regexp.MustCompile("(?s)" + pattern)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.operator+"/demo/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var panel string
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the panel never matched %s: %v\n%s", pattern, err, panel)
		}
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData {
			continue
		}
		var part struct {
			HTML string `json:"html"`
		}
		if err := json.Unmarshal([]byte(data), &part); err != nil {
			t.Fatal(err)
		}
		panel = part.HTML
		if found := wanted.FindStringSubmatch(panel); found != nil {
			return found
		}
	}
}

// running matches what is said of a process that serves, after a number of restarts; its group is the process id.
func running(process, restarts string) string {
	again := ""
	if restarts != "0" {
		again = ", started again " + restarts + " times?"
	}
	return `<b>` + process + `</b> runs since [0-9:.]+, process ([0-9]+)` + again + `</li>`
}

// charges counts what the PSP has really charged for a key.
func charges(t *testing.T, d demo, key string) int {
	t.Helper()
	res := ask(t, http.MethodGet, d.psp, "/_ledger?account="+d.account+"&idempotencyKey="+key, "", nil)
	return strings.Count(res.body, `"status":"succeeded"`)
}

// atThePSP waits until the PSP has a request with the key, which it has not answered.
func atThePSP(t *testing.T, d demo, key string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		res := ask(t, http.MethodGet, d.psp, "/_requests?account=acme&idempotencyKey="+key, "", nil)
		if strings.Contains(res.body, `"outcome":"pending"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the PSP has no request in flight: %s", res.body)
		}
		<-time.After(pollEvery)
	}
}

// awaitWebhook waits until Payonce has taken a webhook of the mock PSP. There is only the one of the key then.
func awaitWebhook(t *testing.T, d demo, key string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		res := ask(t, http.MethodGet, d.psp, "/_webhooks", "", nil)
		if strings.Contains(res.body, `"status":204`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no webhook: %s", key, res.body)
		}
		<-time.After(pollEvery)
	}
}

// payUntilDone sends the payment again until it has its answer.
func payUntilDone(t *testing.T, d demo, key, token string) answer {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		res := ask(t, http.MethodPost, d.public, "/payments",
			`{"customerId":"cus-demo","amountCents":1200,"currency":"USD","paymentMethod":"`+token+`"}`,
			map[string]string{"Authorization": "Bearer demo-acme-key", "Content-Type": "application/json",
				"Idempotency-Key": key, "Prefer": "wait=10"})
		if res.status == http.StatusCreated {
			return res
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is never done: %d %s", key, res.status, res.body)
		}
		<-time.After(pollEvery)
	}
}

// The story of the page: the API is killed while the PSP charges, and comes back by itself. The same request ends in
// one charge.
func TestAPIKilledWhileThePSPChargesChargesOnce(t *testing.T) {
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	before := await(t, d, running("API", "0"))
	await(t, d, `class="next"[^>]*>Press 1\.<`)
	key := press(t, d, "send", "mode=once", "token=pm_slow")
	atThePSP(t, d, key)
	await(t, d, `>Now press 2, before [0-9:]{8} \(UTC\)\.<`)
	press(t, d, "kill-api", "key="+key)
	await(t, d, `>The API was killed[^<]* Now press 3\.<`)
	await(t, d, `pay \(pm_slow\)</td><td>connection lost[^\n]*`+key)

	// The page answers, whether the API is still away or not.
	if res := ask(t, http.MethodGet, d.operator, "/demo/?key="+key, "", nil); res.status != http.StatusOK ||
		!strings.Contains(res.body, `data-live="/console/keys/acme/payments/`+key+`/live"`) {
		t.Errorf("the page: %d %s", res.status, res.body)
	}
	// A client that connects meanwhile waits.
	if res := ask(t, http.MethodGet, d.public, "/docs", "", nil); res.status != http.StatusOK {
		t.Errorf("a client that came after the kill: %d", res.status)
	}
	if after := await(t, d, running("API", "1")); after[1] == before[1] {
		t.Errorf("process %s is still the API", after[1])
	}
	payUntilDone(t, d, key, "pm_slow")
	press(t, d, "send", "mode=again", "key="+key)
	await(t, d, `the same request again \(pm_slow\).*201 succeeded, the stored answer`)
	await(t, d, `>The PSP has charged once, although the client sent the request 2 times and the API was killed: `+
		`your retry did not reach the PSP`)
	if n := charges(t, d, key); n != 1 {
		t.Errorf("the PSP has charged %d times", n)
	}
	// The kill is in the picture at its time: after the charge was sent, before the API came back.
	picture := ask(t, http.MethodGet, d.operator, "/console/keys/acme/payments/"+key+"/picture.txt", "",
		map[string]string{"Authorization": "Bearer demo-operator-key"}).body
	if !regexp.MustCompile(`(?s)  charge\n.*\|  the API is killed\n.*  this API process starts\n.*`+
		`  completed\n.*  201, replayed`).MatchString(picture) ||
		!regexp.MustCompile(`x - - - - \|.*  its answer is lost\n`).MatchString(picture) {
		t.Errorf("the picture is\n%s", picture)
	}
	if res := ask(t, http.MethodGet, d.operator, "/readyz", "", nil); res.status != http.StatusOK {
		t.Errorf("when the API is back: %d %s", res.status, res.body)
	}
}

func TestKilledReconcilerComesBackToItsAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits until a reconciler is started again")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	before := await(t, d, running("reconciler", "0"))
	press(t, d, "kill-reconciler")
	if after := await(t, d, running("reconciler", "1")); after[1] == before[1] {
		t.Errorf("process %s is still the reconciler", after[1])
	}
	if res := ask(t, http.MethodGet, d.reconciler, "/readyz", "", nil); res.status != http.StatusOK {
		t.Errorf("its address: %d %s", res.status, res.body)
	}
	// The new one works: only a reconciler finds this payment.
	key := press(t, d, "send", "mode=once", "token=pm_silent_charged")
	payUntilDone(t, d, key, "pm_silent_charged")
	if n := charges(t, d, key); n != 1 {
		t.Errorf("the PSP has charged %d times", n)
	}
}

func TestCrashedDatabaseComesBackWithItsData(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for the recovery of a database")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	first := payUntilDone(t, d, survivor, "pm_ok")
	before := await(t, d, running("database", "0"))
	press(t, d, "crash-database")
	if after := await(t, d, running("database", "1")); after[1] == before[1] {
		t.Errorf("process %s is still the database", after[1])
	}
	if again := payUntilDone(t, d, survivor, "pm_ok"); again.body != first.body {
		t.Errorf("after the crash:\n%s\nbefore:\n%s", again.body, first.body)
	}
	payUntilDone(t, d, "a-payment-after-the-crash", "pm_ok")
	await(t, d, running("API", "0")) // it was never away
}

func TestEveryButtonSaysWhatTheClientWasTold(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for the outcome of every button")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	key := press(t, d, "send", "mode=once", "token=pm_ok")
	await(t, d, `pay \(pm_ok\)</td><td>201 succeeded<[^\n]*`+key)
	if same := press(t, d, "send", "mode=other-amount", "key="+key); same != key {
		t.Errorf("the page shows %q, want %q", same, key)
	}
	await(t, d, `another amount \(pm_ok\).*422 idempotency_key_reused_with_different_payload`)
	awaitWebhook(t, d, key)
	press(t, d, "resend-webhook", "key="+key)
	await(t, d, `webhook for `+key+`, by hand.*Payonce answered 204: it has seen this webhook before, and has changed nothing`)
	deeds(t, d, key)
	press(t, d, "others", "key=unused", "deed=win")
	await(t, d, `Win</td><td>not done: the PSP has not charged this key`)

	twice := press(t, d, "send", "mode=twice-at-once", "token=pm_slow")
	await(t, d, `second of two at once \(pm_slow\).*(201|409|202).*first of two at once \(pm_slow\).*(201|409|202)`)
	hung := press(t, d, "send", "mode=hang-up", "token=pm_slow")
	await(t, d, `and hang up \(pm_slow\)</td><td>the client hung up[^\n]*`+hung)
	for _, slow := range []string{twice, hung} {
		payUntilDone(t, d, slow, "pm_slow")
		if n := charges(t, d, slow); n != 1 {
			t.Errorf("the PSP has charged %s %d times", slow, n)
		}
	}

	await(t, d, `aria-pressed="true">No faults<.*aria-pressed="false">Webhooks off<`)
	press(t, d, "faults", "preset=no-webhooks")
	await(t, d, `aria-pressed="false">No faults<.*aria-pressed="true">Webhooks off<`)
	await(t, d, `Webhooks off</td><td>set<`)
	if res := ask(t, http.MethodGet, d.psp, "/_faults", "", nil); !strings.Contains(res.body, `"drop":1`) {
		t.Errorf("the PSP's rates: %s", res.body)
	}
	for _, bad := range []string{
		"/demo/send|mode=loud", "/demo/others|deed=steal", "/demo/send|key=%00", "/demo/faults|preset=all",
		"/demo/send|mode=%zz",
		"/demo/send|mode=once&more=" + strings.Repeat("x", 9<<10),
	} {
		path, form, _ := strings.Cut(bad, "|")
		if res := ask(t, http.MethodPost, d.operator, path, form, nil); res.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, res.status, res.body)
		}
	}
}

// Another site's page may send a form here, or have its own name lead here.
func TestButtonsAreForTheirOwnPageAlone(t *testing.T) {
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	_, port, _ := net.SplitHostPort(d.operator)
	for name, c := range map[string]struct {
		header map[string]string
		want   int
	}{
		"another site, by Sec-Fetch-Site": {map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		"another port of this machine": {map[string]string{"Sec-Fetch-Site": "same-site",
			"Origin": "http://" + d.psp}, http.StatusForbidden},
		"another site, by Origin": {map[string]string{"Origin": "http://evil.example"}, http.StatusForbidden},
		"a name that leads here": {map[string]string{"Host": "evil.example:" + port,
			"Origin": "http://evil.example:" + port}, http.StatusMisdirectedRequest},
		"another port": {map[string]string{"Host": "127.0.0.1:1"}, http.StatusMisdirectedRequest},
	} {
		for _, button := range []string{"kill-api", "kill-reconciler", "crash-database", "send", "faults", "stop",
			"held"} {
			if res := ask(t, http.MethodPost, d.operator, "/demo/"+button, "", c.header); res.status != c.want {
				t.Errorf("%s presses %s: %d, want %d", name, button, res.status, c.want)
			}
		}
	}
	res := ask(t, http.MethodGet, d.operator, "/demo/", "", map[string]string{"Host": "evil.example:" + port})
	if res.status != http.StatusMisdirectedRequest {
		t.Errorf("the page under another name: %d", res.status)
	}
	byGet := ask(t, http.MethodGet, d.operator, "/demo/kill-api", "", nil)
	if byGet.status != http.StatusMethodNotAllowed {
		t.Errorf("a button by GET: %d", byGet.status)
	}
	await(t, d, running("API", "0")+`.*`+running("reconciler", "0")+`.*`+running("database", "0")+`.*Nothing yet`)
	for _, host := range []string{"localhost:" + port, "[::1]:" + port, "127.0.0.1:" + port} {
		res := ask(t, http.MethodPost, d.operator, "/demo/send", "",
			map[string]string{"Host": host, "Origin": "http://" + host})
		if res.status != http.StatusSeeOther {
			t.Errorf("its own page at %s: %d %s", host, res.status, res.body)
		}
	}
}

func TestNoButtonsWhereOthersReachTheOperatorsListener(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort(heldport.Address(t))
	d := startDemo(t, pgtest.MigratedDir(t), "OPERATOR_ADDR=0.0.0.0:"+port)
	d.operator = "127.0.0.1:" + port
	for _, path := range []string{"/demo/", "/demo/live", "/demo/start", "/demo/kill-api"} {
		if res := ask(t, http.MethodGet, d.operator, path, "", nil); res.status != http.StatusNotFound ||
			!strings.Contains(res.body, `"code":"not_found"`) {
			t.Errorf("%s: %d %s", path, res.status, res.body)
		}
	}
	if said := d.out.String(); strings.Contains(said, "/demo/start") || !strings.Contains(said, "is not on loopback") {
		t.Errorf("the demo says\n%s", said)
	}
}

// Nobody has to know a key to open the page, and a link in a terminal's history opens nothing.
func TestStartLinkIsGoodOnce(t *testing.T) {
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	found := regexp.MustCompile(`Open this: http://` + d.operator + `(/demo/start\?token=[A-Z2-7]{26})`).
		FindStringSubmatch(d.out.String())
	if found == nil {
		t.Fatalf("the demo prints no link:\n%s", d.out)
	}
	if res := ask(t, http.MethodGet, d.operator, "/demo/start?token=guessed", "", nil); res.status != http.StatusGone {
		t.Errorf("a guess: %d", res.status)
	}
	if res := ask(t, http.MethodHead, d.operator, found[1], "", nil); res.status != http.StatusMethodNotAllowed {
		t.Errorf("a HEAD: %d", res.status)
	}
	if res := ask(t, http.MethodGet, d.operator, found[1], "", nil); res.status != http.StatusSeeOther ||
		res.header.Get("Location") != "/demo/" {
		t.Errorf("the link: %d to %q", res.status, res.header.Get("Location"))
	}
	if res := ask(t, http.MethodGet, d.operator, found[1], "", nil); res.status != http.StatusGone ||
		!strings.Contains(res.body, "This link was good once") {
		t.Errorf("the link, again: %d %s", res.status, res.body)
	}
}
