package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/test/pgproxy"
)

// Each test shows one fault of README.md, in the order of their numbers. A test that fails has met a program in which
// the fault is fixed.

// asProgram makes the test binary the program itself, so that it can be killed.
const asProgram = "LAB_NAIVE_TEST_AS_PROGRAM"

// Fault 1.
func TestCrashAfterChargingChargesTwice(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	killed := exec.CommandContext(t.Context(), os.Args[0])
	killed.Env = append(os.Environ(), asProgram+"=1")
	for name, value := range w.environment {
		killed.Env = append(killed.Env, name+"="+value)
	}
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	w.listen(out)
	w.psp.open(t, "")
	w.psp.holding.Store(true)
	unanswered := w.postInBackground(t.Context())
	receive(t, "the charge", w.psp.charged)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed
	if a := receive(t, "the end of the request", unanswered); a.err == nil {
		t.Fatalf("answered %d %s", a.status, a.body)
	}

	w.psp.holding.Store(false)
	w.run()
	w.post(aKey, aBody).want(t, http.StatusCreated)
	w.psp.wantCharges(aKey, 2)
}

// Fault 2.
func TestTwoAtOnceChargeTwice(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.psp.holding.Store(true)
	one, two := w.postInBackground(t.Context()), w.postInBackground(t.Context())
	for range 2 {
		receive(t, "both charges", w.psp.charged)
	}
	close(w.psp.release)
	first := decode[payment](t, receive(t, "an answer", one).want(t, http.StatusCreated).body)
	second := decode[payment](t, receive(t, "an answer", two).want(t, http.StatusCreated).body)
	if first.ID == second.ID {
		t.Errorf("both were answered with payment %s", first.ID)
	}
	w.psp.wantCharges(aKey, 2)
}

// Fault 3.
func TestTimeoutOfThePSPChargesTwiceOnRetry(t *testing.T) {
	t.Parallel()
	w := setup(t, func(env map[string]string) { env["PSP_TIMEOUT"] = "1s" })
	told := w.post(aKey, paying("pm_timeout_charged")).want(t, http.StatusBadGateway)
	if !decode[problem](t, told.body).Retryable {
		t.Errorf("the client is not told to send the key again: %s", told.body)
	}
	w.psp.wantCharges(aKey, 1)
	w.post(aKey, paying("pm_timeout_charged")).want(t, http.StatusBadGateway)
	w.psp.wantCharges(aKey, 2)
}

// Fault 4. The PSP would have known the second attempt for what it is.
func TestPSPCannotTellARetryFromAnotherCharge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 2 {
		w.post(aKey, paying("pm_500_charged")).want(t, http.StatusBadGateway)
	}
	sent := w.psp.wantCharges(aKey, 2)
	if sent[0].IdempotencyKey == sent[1].IdempotencyKey {
		t.Errorf("both attempts bore the key %s", sent[0].IdempotencyKey)
	}
}

// Fault 5.
func TestHangUpAfterChargingChargesTwiceOnRetry(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.psp.holding.Store(true)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	unanswered := w.postInBackground(ctx)
	receive(t, "the charge", w.psp.charged)
	hangUp()
	receive(t, "the program to hang up on the PSP", w.psp.gone)
	if a := receive(t, "the end of the request", unanswered); a.err == nil {
		t.Fatalf("answered %d %s", a.status, a.body)
	}

	w.psp.holding.Store(false)
	w.post(aKey, aBody).want(t, http.StatusCreated)
	w.psp.wantCharges(aKey, 2)
}

// Fault 6.
func TestReplayIsNotTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.post(aKey, aBody).want(t, http.StatusCreated)
	replay := w.post(aKey, aBody).want(t, http.StatusCreated)
	if first.body == replay.body {
		t.Errorf("both have the bytes %s", first.body)
	}
	if first.header.Get("Location") == "" || replay.header.Get("Location") != "" {
		t.Errorf("Location is %q first, %q replayed", first.header.Get("Location"), replay.header.Get("Location"))
	}
	// It is the bytes that differ, and not what they say.
	if diff := cmp.Diff(decode[payment](t, first.body), decode[payment](t, replay.body)); diff != "" {
		t.Errorf("the answers differ in content (-first +replay):\n%s", diff)
	}
}

// Fault 7. The charge stays in the PSP's ledger for good, and nowhere else; who retries pays again.
func TestChargeWhoseAnswerIsLostIsNeverFound(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.post(aKey, paying("pm_reset_charged")).want(t, http.StatusBadGateway)
	w.psp.wantCharges(aKey, 1)
	awaitWebhook(t, w)
	if found := decode[page](t, w.get("/payments").want(t, http.StatusOK).body); len(found.Data) != 0 {
		t.Errorf("the payment was found: %+v", found.Data)
	}
	w.post(aKey, aBody).want(t, http.StatusCreated)
	w.psp.wantCharges(aKey, 2)
}

// awaitWebhook waits until the PSP has told of a charge, and was thanked.
func awaitWebhook(t *testing.T, w *world) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		told := send(t.Context(), http.MethodGet, w.psp.server.URL+"/_webhooks", "", nil).want(t, http.StatusOK)
		if strings.Contains(told.body, `"status":204`) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no webhook was taken: %s", told.body)
		}
	}
}

// Fault 8. This one charges too little: the second order is told that it is paid, and is not.
func TestAnotherOrderUnderTheSameKeyIsToldThatItIsPaid(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.post(aKey, aBody).want(t, http.StatusCreated)
	other := w.post(aKey, strings.Replace(aBody, "12000", "990000", 1)).want(t, http.StatusCreated)
	if told := decode[payment](t, other.body).AmountCents; told != 12000 {
		t.Errorf("the order of 990000 is told of %d", told)
	}
	if sent := w.psp.wantCharges(aKey, 1); sent[0].AmountCents != 12000 {
		t.Errorf("%d was charged", sent[0].AmountCents)
	}
}

// Fault 9. One request, no retry of the client's, and both transactions have committed.
func TestLostAcknowledgementOfCommitChargesTwiceInOneRequest(t *testing.T) {
	t.Parallel()
	var proxy *pgproxy.Proxy
	var straight string
	w := setup(t, func(env map[string]string) {
		straight = env["DATABASE_URL"]
		proxy = pgproxy.Start(t, straight)
		env["DATABASE_URL"] = proxy.URL()
	})
	lost := proxy.On("commit", pgproxy.DropAcknowledgement)
	first := w.post(aKey, aBody).want(t, http.StatusCreated)
	lost.Await(t)
	w.psp.wantCharges(aKey, 2)

	conn, err := pgx.Connect(t.Context(), straight)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var rows int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM naive.payments WHERE key = $1",
		aKey).Scan(&rows); err != nil || rows != 2 {
		t.Errorf("%d payments are stored (error %v), want both", rows, err)
	}
	// And the replay shows the payment that the client has never heard of.
	replay := w.post(aKey, aBody).want(t, http.StatusCreated)
	if decode[payment](t, first.body).ID == decode[payment](t, replay.body).ID {
		t.Error("the replay shows the payment that was answered")
	}
}
