package rig

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"payonce/internal/payment"
	"payonce/lab/bench/pgbench"
)

// PSP is a provider that has charged for every key that was lost. It answers lookups over HTTP, from this process, and
// costs as little as it can: what a provider is like is shown by the mock PSP.
type PSP struct {
	URL string

	of     pgbench.Sample
	lost   atomic.Pointer[map[string]Lost] // by key
	server *http.Server
}

// StartPSP serves one until it is closed. Its charges are those of payments like the sample.
func StartPSP(of pgbench.Sample) (*PSP, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed by Close
	if err != nil {
		return nil, fmt.Errorf("listen as the PSP: %w", err)
	}
	p := &PSP{URL: "http://" + l.Addr().String(), of: of}
	p.Charge(nil)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/charges", p.list)
	mux.HandleFunc("GET /", p.nothing)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: stopLimit}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

// Close ends it.
func (p *PSP) Close() { _ = p.server.Close() }

// Charge has it charge for these, and forget all others.
func (p *PSP) Charge(lost []Lost) {
	by := make(map[string]Lost, len(lost))
	for _, l := range lost {
		by[l.Key] = l
	}
	p.lost.Store(&by)
}

// list has the charge of a key. A scan finds nothing.
func (p *PSP) list(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("idempotencyKey")
	lost, found := (*p.lost.Load())[key]
	if !found {
		p.nothing(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	charge, err := json.Marshal(map[string]any{
		"id": "ch_" + lost.Payment.String(), "object": "charge", "account": r.Header.Get("PSP-Account"),
		"idempotencyKey": key, "reference": payment.ID(lost.Payment).String(), "status": "succeeded",
		"amountCents": p.of.AmountMinor, "currency": p.of.Currency, "paymentMethod": p.of.PaymentMethod,
		"createdAt": time.Now().UTC(),
	})
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, `{"data":[%s],"hasMore":false}`, charge)
}

func (*PSP) nothing(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"data":[],"hasMore":false}`)
}
