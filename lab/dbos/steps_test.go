package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/test/pgtest"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/google/uuid"
)

// What a crash between a plain step's write and its checkpoint leads to: the step finds its own row.
func TestReserveThatRunsTwiceFindsItsRow(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, url string, env map[string]string) {
		s, err := readSettings(environment(url, env))
		if err != nil {
			t.Fatal(err)
		}
		p, err := open(t.Context(), s, new(bytes.Buffer))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.close(); err != nil {
				t.Error(err)
			}
		})
		o := order{Key: "key-1", PaymentID: uuid.New(), CustomerID: "c", AmountCents: 1, Currency: "KRW",
			CreatedAt: time.Now()}
		// Another workflow id has no checkpoints, as if those of the first had been lost.
		for _, workflow := range []string{"first", "second"} {
			handle, err := dbos.RunWorkflow(p.dbos, p.pay, o, dbos.WithWorkflowID(workflow))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := handle.GetResult(); err != nil {
				t.Errorf("%s: %v", workflow, err)
			}
		}
		wantSucceeded(t, url, "key-1", 1)
	})
}

// README.md says so: the failure is recorded like a success, and a repeated key gets it again.
func TestVanishedPaymentFailsForGood(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, url string, env map[string]string) {
		env["PSP_MS"] = "300"
		p := start(t, url, env)
		answered := make(chan int, 1)
		go func() {
			status, _ := post(t, p.base, "key-1", aBody)
			answered <- status
		}()
		awaitReserved(t, url, "key-1")
		conn := pgtest.Connect(t, url)
		pgtest.Exec(t, conn, "DELETE FROM lab_dbos.payments")
		if status := <-answered; status != http.StatusInternalServerError {
			t.Errorf("first answer: %d", status)
		}
		if status, body := post(t, p.base, "key-1", aBody); status != http.StatusInternalServerError ||
			!strings.Contains(body, errNoRow.Error()) {
			t.Errorf("second answer: %d %s", status, body)
		}
	})
}

func TestPSPGivesAKeyOneCharge(t *testing.T) {
	t.Parallel()
	p := new(peer)
	charge := func(key string) string {
		id, err := p.charge(t.Context(), order{Key: key, PaymentID: uuid.New()})
		if err != nil {
			t.Error(err)
		}
		return id
	}
	one, again, two := charge("key-1"), charge("key-1"), charge("key-2")
	if one != again || one == two {
		t.Errorf("key-1: %s, then %s; key-2: %s", one, again, two)
	}
}
