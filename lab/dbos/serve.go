package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/google/uuid"
)

const (
	maxBody = 16 << 10
	maxKey  = 255
	// answerTimeout is how long a request waits for its workflow, which goes on without it.
	answerTimeout = 25 * time.Second
	// pollInterval is for a key whose first request is still running: DBOS polls for it, every second unless told.
	pollInterval = 50 * time.Millisecond
)

// serve answers until ctx ends, then finishes what is in flight and closes the peer.
func (p *peer) serve(ctx context.Context, addr string, stdout io.Writer) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on ADDR: %w", err), p.close())
	}
	server := &http.Server{
		Handler: p.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = drain(ctx, server)
	}
	return errors.Join(err, p.close())
}

func drain(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("finish requests: %w", err)
	}
	return nil
}

func (p *peer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("POST /payments", p.postPayment)
	return mux
}

func (p *peer) postPayment(w http.ResponseWriter, r *http.Request) {
	o, err := readOrder(w, r)
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	// The workflow does not run in the request's context: a client that hangs up must not cancel a payment.
	handle, err := dbos.RunWorkflow(p.dbos, p.pay, o, dbos.WithWorkflowID(o.Key))
	var paid payment
	if err == nil {
		paid, err = handle.GetResult(dbos.WithHandleTimeout(answerTimeout),
			dbos.WithHandlePollingInterval(pollInterval))
	}
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]string{"error": "payment failed: " + err.Error()})
		return
	}
	answer(w, http.StatusCreated, paid)
}

func readOrder(w http.ResponseWriter, r *http.Request) (order, error) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > maxKey {
		return order{}, fmt.Errorf("the Idempotency-Key header must have 1 to %d characters", maxKey)
	}
	var body struct {
		CustomerID  string `json:"customerId"`
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil {
		return order{}, fmt.Errorf("read body: %w", err)
	}
	if body.CustomerID == "" || body.AmountCents <= 0 || len(body.Currency) != 3 {
		return order{}, errors.New("customerId, a positive amountCents and a currency of three letters are required")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return order{}, fmt.Errorf("make payment id: %w", err)
	}
	// Microseconds are what PostgreSQL keeps.
	return order{
		Key: key, PaymentID: id, CustomerID: body.CustomerID, AmountCents: body.AmountCents, Currency: body.Currency,
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}, nil
}

func answer(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		status, encoded = http.StatusInternalServerError, []byte(`{"error":"encode answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(encoded)))
	w.WriteHeader(status)
	_, _ = w.Write(encoded)
}
