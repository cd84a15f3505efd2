package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"payonce/client"
)

// server is an API that charges, and loses its first answer.
func server() *httptest.Server {
	answers := 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if answers++; answers == 1 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Idempotency-Key", r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Replace(string(body), "{", `{"paymentId":"pay_1","status":"succeeded",`, 1))
	}))
}

func Example() {
	api := server()
	defer api.Close()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	journal, err := client.OpenJournal(filepath.Join(dir, "payments.journal"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = journal.Close() }()
	payer, err := client.New(client.Config{BaseURL: api.URL, APIKey: "demo-acme-key", Store: journal})
	if err != nil {
		fmt.Println(err)
		return
	}

	// What a crash has left open goes on first.
	tell := func(r client.Result, err error) { fmt.Println("resumed", r.Intent, r.Paid, err) }
	err = payer.Resume(context.Background(), tell)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	order := client.Intent{ID: "order-42", CustomerID: "cus-1", AmountCents: 12000, Currency: "USD"}
	result, err := payer.Pay(ctx, order)
	var unknown *client.UnknownError
	var refused *client.RefusedError
	switch {
	case errors.As(err, &unknown):
		fmt.Println("ship nothing yet; Resume goes on with the same key")
	case errors.As(err, &refused):
		fmt.Println("correct", refused.Code, "and pay again with the same ID")
	case err != nil:
		fmt.Println("a person has to look:", err)
	case !result.Paid:
		fmt.Println("declined:", result.DeclineCode)
	default:
		fmt.Println("paid:", result.PaymentID)
	}
	// Output: paid: pay_1
}

// A new try of the customer after a decline is a new intent. Its ID must be another one.
func ExampleTable() {
	for _, row := range client.Table() {
		if row.Meaning == client.Declined || row.Meaning == client.Paid {
			fmt.Println(row.Status, row.Code, "ends the intent:", row.Meaning)
		}
	}
	// Output:
	// 201  ends the intent: paid
	// 402 payment_declined ends the intent: declined
}
