package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// drainMargin is how long answers may take at the end, beside the PSP.
const drainMargin = 5 * time.Second

// serve answers on both listeners until ctx ends, then finishes what is in flight.
func (s *service) serve(ctx context.Context, set settings, stdout io.Writer) error {
	var config net.ListenConfig
	public, err := config.Listen(ctx, "tcp", set.httpAddr)
	if err != nil {
		return fmt.Errorf("listen on HTTP_ADDR: %w", err)
	}
	operator, err := config.Listen(ctx, "tcp", set.operatorAddr)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on OPERATOR_ADDR: %w", err), public.Close())
	}
	fmt.Fprintf(stdout, "listening on http://%s, operator side on http://%s\n", public.Addr(), operator.Addr())
	group, ctx := errgroup.WithContext(ctx)
	limit := set.pspTimeout + drainMargin
	group.Go(func() error { return serveUntil(ctx, public, s.publicRoutes(), limit) })
	group.Go(func() error { return serveUntil(ctx, operator, s.operatorRoutes(), limit) })
	return group.Wait()
}

func serveUntil(ctx context.Context, l net.Listener, h http.Handler, limit time.Duration) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("finish requests: %w", err)
	}
	return nil
}

func (s *service) publicRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", s.forTenant(s.createPayment))
	mux.HandleFunc("GET /payments", s.forTenant(s.listPayments))
	mux.HandleFunc("GET /payments/{id}", s.forTenant(s.getPayment))
	mux.HandleFunc("POST /webhooks/psp", s.receiveWebhook)
	return mux
}

func (s *service) operatorRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.store.pool.Ping(r.Context()); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	return mux
}

// forTenant lets in a client with an API key, as the tenant that the key belongs to.
func (s *service) forTenant(handle func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		tenant, known := s.keys[secret]
		if !known || !strings.EqualFold(scheme, "Bearer") {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(http.StatusUnauthorized, "unauthenticated", "An API key is required.").write(w)
			return
		}
		handle(w, r, tenant)
	}
}
