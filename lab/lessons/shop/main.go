// Command shop pays for one order at a Payonce that runs, for lesson 16. It is a caller that can be killed:
//
//	shop [-keys client] [-die stored] [-timeout 10s] ORDER CENTS [TOKEN]
//
// Three ways to treat keys can be compared. "client" is package client: a key for each order, in a journal before the
// first send. "memory" is the usual retry loop, with a key that only the process knows. "attempt" is the same loop with
// a key for each attempt.
//
// The shop never asks what was charged. The lesson asks the PSP's ledger.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"payonce/client"
)

// The moments at which the shop can be killed.
const (
	stored   = "stored"   // the key is in the journal, and nothing was sent
	answered = "answered" // the answer is here, and nothing was written down
)

// shop is one process of the caller.
type shop struct {
	keys    string
	die     string
	timeout time.Duration
	api     string
	apiKey  string
	journal string
	out     io.Writer
}

func main() {
	s := shop{api: "http://localhost:8080", apiKey: "demo-acme-key", journal: "bin/shop.journal", out: os.Stdout}
	for name, setting := range map[string]*string{"API_URL": &s.api, "TENANT_KEY": &s.apiKey, "JOURNAL": &s.journal} {
		if given := os.Getenv(name); given != "" {
			*setting = given
		}
	}
	flag.StringVar(&s.keys, "keys", "client", "client, memory or attempt")
	flag.StringVar(&s.die, "die", "", "stored or answered: where the process kills itself, as kill -9 does")
	flag.DurationVar(&s.timeout, "timeout", 10*time.Second, "how long an attempt waits for its answer")
	flag.Parse()
	if err := s.run(context.Background(), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func (s shop) run(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("usage: shop [-keys client|memory|attempt] [-die stored|answered] ORDER CENTS [TOKEN]")
	}
	cents, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("the amount must be a number of cents: %w", err)
	}
	order := client.Intent{ID: args[0], CustomerID: "cus-demo", AmountCents: cents, Currency: "USD",
		PaymentMethod: "pm_ok"}
	if len(args) > 2 { //nolint:mnd // the third one is given
		order.PaymentMethod = args[2]
	}
	switch s.keys {
	case "client":
		return s.payWithClient(ctx, order)
	case "memory", "attempt":
		return s.retry(ctx, order)
	}
	return fmt.Errorf("there are no keys of the kind %q", s.keys)
}

// payWithClient goes on with what an earlier process has left open, and then pays for the order.
func (s shop) payWithClient(ctx context.Context, order client.Intent) error {
	journal, err := client.OpenJournal(s.journal)
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	payer, err := client.New(client.Config{BaseURL: s.api, APIKey: s.apiKey, Store: watched{journal, s},
		AttemptTimeout: s.timeout, HTTPClient: &http.Client{Transport: loud{s}}})
	if err != nil {
		return err
	}
	open := 0
	err = payer.Resume(ctx, func(client.Result, error) { open++ })
	if err != nil {
		return err
	}
	if open > 0 {
		fmt.Fprintln(s.out, "open orders that were resumed:", open)
	}
	result, err := payer.Pay(ctx, order)
	switch {
	case err != nil:
		fmt.Fprintln(s.out, "not known, or refused:", err)
	case result.Paid:
		fmt.Fprintln(s.out, "paid:", result.PaymentID)
	default:
		fmt.Fprintln(s.out, "declined:", result.DeclineCode)
	}
	return nil
}

// watched is the journal, and says what is written into it.
type watched struct {
	client.Store
	shop shop
}

// Create is called with a fresh key by Pay, and with the one that it has found by Resume. The journal gives back the
// key that it has for the order.
func (w watched) Create(ctx context.Context, fresh client.Record) (client.Record, error) {
	record, err := w.Store.Create(ctx, fresh)
	if err == nil && record.State == client.Open {
		fmt.Fprintln(w.shop.out, "in the journal: key", record.Key)
	}
	w.shop.at(stored)
	return record, err
}

// Update is called with the end of an order.
func (w watched) Update(ctx context.Context, changed client.Record) error {
	w.shop.at(answered)
	return w.Store.Update(ctx, changed)
}

// loud says what is sent.
type loud struct{ shop shop }

// RoundTrip sends a request.
func (l loud) RoundTrip(r *http.Request) (*http.Response, error) {
	fmt.Fprintln(l.shop.out, "sent: key", r.Header.Get("Idempotency-Key"))
	return http.DefaultTransport.RoundTrip(r)
}

// at kills the process if this is the moment. Nothing is cleaned up: no deferred call runs.
func (s shop) at(moment string) {
	if s.die != moment {
		return
	}
	fmt.Fprintln(s.out, "killed")
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way
}
