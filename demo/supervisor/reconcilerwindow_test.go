package supervisor

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/demo/windows"
	"payonce/test/pgtest"
)

// hurried shortens the time after which the API gives an outcome up, and that until the first lookup and the next scan.
func hurried() []string {
	return []string{"PSP_TIMEOUT=2s", "FIRST_LOOKUP=1s", "LOOKUP_BASE=100ms", "LOOKUP_CAP=1s", "SCAN_EVERY=2s"}
}

// webhooksFirst leaves a webhook so much time that neither a lookup nor a scan completes its key before it, also on a
// busy machine.
func webhooksFirst() []string {
	return []string{"PSP_TIMEOUT=2s", "FIRST_LOOKUP=30s", "SCAN_EVERY=30s"}
}

// rowOf is what our row and its timeline say of a key.
func rowOf(t *testing.T, d demo, key string) string {
	t.Helper()
	res := ask(t, http.MethodGet, d.public, "/idempotency-keys/"+key, "",
		map[string]string{"Authorization": "Bearer demo-acme-key"})
	if res.status != http.StatusOK {
		t.Fatalf("%s: %d %s", key, res.status, res.body)
	}
	return res.body
}

// hasStatus tells whether the row has the status. The first one in its JSON is the row's own.
func hasStatus(row, status string) bool {
	_, after, _ := strings.Cut(row, `"status":`)
	return strings.HasPrefix(after, `"`+status+`"`)
}

// rowEvery keeps to the tenant's rate.
const rowEvery = 100 * time.Millisecond

// awaitRow waits until the row is as it should be.
func awaitRow(t *testing.T, d demo, key string, limit time.Duration, is func(row string) bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; {
		row := rowOf(t, d, key)
		if is(row) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the row never becomes so: %s", row)
		}
		<-time.After(rowEvery)
	}
}

func completed(row string) bool { return hasStatus(row, "completed") }

// deadLetters counts the open dead letters about a key.
func deadLetters(t *testing.T, d demo, key string) int {
	t.Helper()
	res := ask(t, http.MethodGet, d.operator, "/operator/dead-letters?status=open", "",
		map[string]string{"Authorization": "Bearer demo-operator-key"})
	if res.status != http.StatusOK {
		t.Fatalf("dead letters: %d %s", res.status, res.body)
	}
	return strings.Count(res.body, `"key":"`+key+`"`)
}

// stopReconcilerAt is stopAt for a window of the reconciler. It compares our row, its timeline and the PSP's ledger
// with what docs/crash_windows.md says of the window.
func stopReconcilerAt(t *testing.T, d demo, window string) (key string) {
	t.Helper()
	key = stopAt(t, d, window)
	row := rowOf(t, d, key)
	source, written := map[string]string{"9": "webhook", "10": "webhook", "15": "lookup"}[window]
	switch {
	case written && (!completed(row) || !strings.Contains(row, `"actor":"`+source+`"`)):
		t.Errorf("window %s: the evidence is not written: %s", window, row)
	case window == "12": // The lookup's job is committed. A worker may have run it already.
		if !completed(row) && !hasStatus(row, "unknown") {
			t.Errorf("window 12: the key is neither unknown nor completed: %s", row)
		}
	case !written && !hasStatus(row, "unknown"):
		t.Errorf("window %s: the key is not unknown: %s", window, row)
	}
	if n := charges(t, d, key); n != chargedAt(window) {
		t.Errorf("window %s: the PSP has charged %d times when the reconciler is held", window, n)
	}
	if n := deadLetters(t, d, key); n != 0 {
		t.Errorf("window %s: there are %d dead letters", window, n)
	}
	return key
}

// chargedAt is how often the PSP has charged a payment that comes to a window of the reconciler, and charges it at all.
func chargedAt(window string) int {
	if window == "29" || window == "30" { // these two release a key
		return 0
	}
	return 1
}

// endsWell waits for the end of a payment that was held in the reconciler. Nobody executes it again: the answer to the
// same request is a replay. At 16 the end is a dead letter, and an operator decides.
func endsWell(t *testing.T, d demo, window, key string) {
	t.Helper()
	const limit = 2 * patience // a lookup that died with its process is made again after a minute
	switch {
	case window == "16":
		awaitRow(t, d, key, limit, func(string) bool { return deadLetters(t, d, key) == 1 })
	case chargedAt(window) == 0:
		awaitRow(t, d, key, limit, func(row string) bool { return hasStatus(row, "failed_retryable") })
	default:
		awaitRow(t, d, key, limit, completed)
		w, _ := windows.Stripe().ByID(window)
		if res := payUntilDone(t, d, key, w.Token); res.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("window %s: the same request again is not a replay", window)
		}
	}
	if n := charges(t, d, key); n != chargedAt(window) {
		t.Errorf("window %s: the PSP has charged %d times", window, n)
	}
}

// What is done at the windows of the reconciler, as "window action".
func webhookHolds() []string {
	return []string{"8 go-on", "8 cut", "9 go-on", "9 lose-acknowledgement", "10 go-on", "10 lose-acknowledgement"}
}

func lookupHolds() []string {
	return []string{"11 go-on", "12 go-on", "13 go-on", "14 go-on", "15 go-on", "16 go-on"}
}

func lookupFailures() []string {
	return []string{"11 cut", "12 lose-acknowledgement", "13 cut", "13 psp-500", "14 cut", "14 psp-500",
		"15 lose-acknowledgement", "16 cut"}
}

// The lists are complete. A kill and a pause have tests of their own.
func TestEveryActionAtAWindowOfTheReconcilerIsTested(t *testing.T) {
	t.Parallel()
	tested := slices.Concat(webhookHolds(), lookupHolds(), lookupFailures())
	for _, w := range windows.Native().Windows() {
		for _, c := range w.Choices() {
			if w.Process() == windows.Reconciler && c.Action != windows.Kill && c.Action != windows.Pause &&
				!slices.Contains(tested, w.ID+" "+string(c.Action)) {
				t.Errorf("no test does %s at window %s", c.Action, w.ID)
			}
		}
	}
}

// heldAndDone stops payments at windows of the reconciler, one after the other, and ends each hold by an action.
func heldAndDone(t *testing.T, d demo, pairs ...string) {
	t.Helper()
	for _, pair := range pairs {
		window, action, _ := strings.Cut(pair, " ")
		key := stopReconcilerAt(t, d, window)
		press(t, d, "held", "action="+action, "key="+key)
		endsWell(t, d, window, key)
	}
	await(t, d, running("reconciler", "0"))
}

func TestWebhookHeldInTheReconcilerIsProcessed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every window of a webhook")
	}
	t.Parallel()
	heldAndDone(t, startDemo(t, pgtest.MigratedDir(t), webhooksFirst()...), webhookHolds()...)
}

func TestLookupHeldAtAWindowCompletesItsKeyNowOrLater(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits until outcomes are given up")
	}
	for _, pairs := range [][]string{lookupHolds(), lookupFailures()} {
		t.Run(pairs[0], func(t *testing.T) {
			t.Parallel()
			heldAndDone(t, startDemo(t, pgtest.MigratedDir(t), hurried()...), pairs...)
		})
	}
}

func TestPausedReconcilerGoesOnAfterFiveSeconds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for the ends of pauses")
	}
	d := startDemo(t, pgtest.MigratedDir(t), hurried()...)
	for _, window := range []string{"8", "13"} {
		key := stopReconcilerAt(t, d, window)
		press(t, d, "kill-api", "key="+key) // which has nothing to do with what is held
		await(t, d, `kill -9 the API</td><td>done`)
		press(t, d, "held", "action=pause", "key="+key)
		await(t, d, `The reconciler is paused <span[^>]*>until`)
		await(t, d, seenAt(window, "the reconciler was paused for 5 seconds", "[^<]*"))
		endsWell(t, d, window, key)
	}
	await(t, d, running("reconciler", "0"))
}

// Nobody else moves a key while it is held: neither another lookup nor the scan, which may be faster when it is let go.
// 13 is held for longer than a job may take.
func TestReconcilerHeldUntilItIsLetGo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for the limits of a hold")
	}
	for window, hold := range map[string]time.Duration{
		"8": 12 * time.Second, "11": 12 * time.Second, "13": 35 * time.Second,
	} {
		settings := append(hurried(), "DEMO_HOLD="+hold.String())
		if window == "8" {
			settings = append(webhooksFirst(), "DEMO_HOLD="+hold.String())
		}
		t.Run(window, func(t *testing.T) {
			t.Parallel()
			d := startDemo(t, pgtest.MigratedDir(t), settings...)
			key := stopReconcilerAt(t, d, window)
			before := rowOf(t, d, key)
			await(t, d, `window `+window+`</td><td>it went on by itself after`)
			endsWell(t, d, window, key)
			after := rowOf(t, d, key)
			var row struct{ ReservedAt, CompletedAt time.Time }
			if err := json.Unmarshal([]byte(after), &row, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			if lines := strings.Count(after, `"actor"`) - strings.Count(before, `"actor"`); lines != 1 ||
				row.CompletedAt.Sub(row.ReservedAt) < hold {
				t.Errorf("window %s: before\n%s\nand after\n%s", window, before, after)
			}
		})
	}
}

// The demo's own settings lead to the furthest window in time.
func TestLastLookupIsHeldWithTheSettingsOfTheDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for four lookups that fail")
	}
	heldAndDone(t, startDemo(t, pgtest.MigratedDir(t)), "16 go-on")
}

// Another reconciler finds the payments. Those windows come first that take it the longest: a dead letter takes a
// minute. The others are armed while the job queue elects a leader, which takes it some 20 s after each kill.
func TestReconcilerKilledAtAnyWindowChargesOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for elections")
	}
	for list, settings := range map[string][]string{
		"8 9 10": webhooksFirst(), "16 11": hurried(), "13 14 12 15": hurried(),
	} {
		t.Run(list, func(t *testing.T) {
			t.Parallel()
			d := startDemo(t, pgtest.MigratedDir(t), settings...)
			keys := map[string]string{}
			for i, window := range strings.Fields(list) {
				key := stopReconcilerAt(t, d, window)
				press(t, d, "held", "action=kill", "key="+key)
				await(t, d, `at the window: kill -9 the reconciler</td><td>done`)
				await(t, d, running("reconciler", strconv.Itoa(i+1)))
				keys[window] = key
			}
			for window, key := range keys {
				endsWell(t, d, window, key)
			}
			await(t, d, running("API", "0"))
		})
	}
}
