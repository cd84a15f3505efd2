package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"payonce/test/pgtest"
)

// asProgram makes the test binary the program itself, so that it can be killed.
const asProgram = "LAB_DBOS_TEST_AS_PROGRAM"

// A power cut between reserve and charge: the next process finishes the payment, under the id of the first.
func TestKilledPaymentIsFinishedByNextProcess(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, url string, env map[string]string) {
		killed := exec.CommandContext(t.Context(), os.Args[0])
		killed.Env = append(os.Environ(), asProgram+"=1", "DATABASE_URL="+url, "ADDR=127.0.0.1:0", "PSP_MS=10000",
			"DB_STEPS="+env["DB_STEPS"])
		out, err := killed.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatalf("start: %v", err)
		}
		base := line[len("listening on ") : len(line)-1]
		unanswered, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		go postAndForget(unanswered, base, "key-1")
		before := awaitReserved(t, url, "key-1")
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = killed.Wait() // it was killed

		next := start(t, url, env)
		if answered, want := mustPay(t, next.base, "key-1", aBody), `{"paymentId":"pay_`+
			before; answered[:min(len(want), len(answered))] != want {
			t.Errorf("answered %s, reserved %s", answered, before)
		}
		wantSucceeded(t, url, "key-1", 1)
	})
}

// awaitReserved waits until the charge is on its way, and tells the payment's id.
func awaitReserved(t *testing.T, url, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := pgtest.Connect(t, url)
	for {
		var id string
		err := conn.QueryRow(ctx, `SELECT p.payment_id::text FROM lab_dbos.payments p
			JOIN dbos.operation_outputs o ON o.workflow_uuid = p.idempotency_key WHERE p.idempotency_key = $1`, key).Scan(&id)
		if err == nil {
			return id
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not reserved: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
