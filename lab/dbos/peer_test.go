package main

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"

	"payonce/test/pgtest"
)

// eachWay runs a claim for both ways to write.
func eachWay(t *testing.T, claim func(t *testing.T, url string, env map[string]string)) {
	t.Helper()
	for _, steps := range []string{"transaction", "step"} {
		t.Run(steps, func(t *testing.T) {
			t.Parallel()
			claim(t, pgtest.NewURL(t), map[string]string{"DB_STEPS": steps})
		})
	}
}

func TestRepeatedKeyAnswersSameBytesFromOneRow(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, url string, env map[string]string) {
		p := start(t, url, env)
		first := mustPay(t, p.base, "key-1", aBody)
		if again := mustPay(t, p.base, "key-1", aBody); again != first {
			t.Errorf("first %s\nagain %s", first, again)
		}
		wantSucceeded(t, url, "key-1", 1)
		for _, member := range []string{`"status":"succeeded"`, `"pspChargeId":"ch_`, `"amountCents":12000`,
			`"paymentId":"pay_`} {
			if !strings.Contains(first, member) {
				t.Errorf("no %s in %s", member, first)
			}
		}
	})
}

func TestTwoKeysMakeTwoPayments(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, url string, env map[string]string) {
		p := start(t, url, env)
		if one, two := mustPay(t, p.base, "key-1", aBody), mustPay(t, p.base, "key-2", aBody); one == two {
			t.Errorf("both keys answer %s", one)
		}
		wantSucceeded(t, url, "key-1", 1)
		wantSucceeded(t, url, "key-2", 1)
	})
}

func TestSimultaneousDuplicatesMakeOnePayment(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, url string, env map[string]string) {
		env["PSP_MS"] = "100" // so that the others meet a workflow that runs
		p := start(t, url, env)
		answers := make([]string, 8)
		var clients sync.WaitGroup
		for i := range answers {
			clients.Go(func() { answers[i] = mustPay(t, p.base, "key-1", aBody) })
		}
		clients.Wait()
		for _, a := range answers[1:] {
			if a != answers[0] {
				t.Errorf("%s\n%s", answers[0], a)
			}
		}
		wantSucceeded(t, url, "key-1", 1)
	})
}

// The program that asked is gone; the answer is the database's.
func TestRestartedProgramAnswersSameBytes(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	before := start(t, url, nil)
	first := mustPay(t, before.base, "key-1", aBody)
	before.end(t)
	after := start(t, url, nil)
	if again := mustPay(t, after.base, "key-1", aBody); again != first {
		t.Errorf("first %s\nagain %s", first, again)
	}
}

// README.md lists it as a difference: Payonce answers 422.
func TestReusedKeyWithOtherBodyAnswersFirstPayment(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.NewURL(t), nil)
	first := mustPay(t, p.base, "key-1", aBody)
	if other := mustPay(t, p.base, "key-1", strings.Replace(aBody, "12000", "99", 1)); other != first {
		t.Errorf("first %s\nother %s", first, other)
	}
}

// A signal ends the program, but not a payment in it.
func TestPaymentInFlightOutlivesCtrlC(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	p := start(t, url, map[string]string{"PSP_MS": "500"})
	answered := make(chan int, 1)
	go func() {
		status, _ := post(t, p.base, "key-1", aBody)
		answered <- status
	}()
	awaitReserved(t, url, "key-1")
	p.end(t)
	if status := <-answered; status != http.StatusCreated {
		t.Errorf("answered %d", status)
	}
	wantSucceeded(t, url, "key-1", 1)
}

func TestBadRequestsAreRefusedWithoutARow(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	p := start(t, url, nil)
	for name, r := range map[string]struct{ key, body string }{
		"no key":        {"", aBody},
		"long key":      {strings.Repeat("k", maxKey+1), aBody},
		"not JSON":      {"key-1", "pay"},
		"no customer":   {"key-1", `{"amountCents":1,"currency":"KRW"}`},
		"no amount":     {"key-1", `{"customerId":"c","currency":"KRW"}`},
		"long currency": {"key-1", `{"customerId":"c","amountCents":1,"currency":"WONS"}`},
		"oversized body": {"key-1", `{"customerId":"` + strings.Repeat("c", maxBody) +
			`","amountCents":1,"currency":"KRW"}`},
	} {
		if status, answered := post(t, p.base, r.key, r.body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, answered)
		}
	}
	wantSucceeded(t, url, "key-1", 0)
}

func TestWrongSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]map[string]string{
		"DATABASE_URL": {"DATABASE_URL": ""},
		"DB_STEPS":     {"DB_STEPS": "both"},
		"DB_MAX_CONNS": {"DB_MAX_CONNS": "1"},
		"PSP_MS":       {"PSP_MS": "-1"},
		"ADDR":         {"ADDR": "nowhere", "DATABASE_URL": pgtest.NewURL(t)},
	} {
		err := run(t.Context(), nil, environment("postgres://unused", wrong), new(bytes.Buffer), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
