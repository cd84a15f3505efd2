package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Settings, listener, routes, authentication.

type service struct {
	store      store
	psp        psp
	pspTimeout time.Duration
	tenants    map[[sha256.Size]byte]string // by hashed API key: the time of a look-up says nothing about the keys
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv func(string) string) error {
	var wrong []string
	text := func(name, example, shape string) string {
		if !regexp.MustCompile("^(?:" + shape + ")$").MatchString(getenv(name)) {
			wrong = append(wrong, name+" (such as "+example+")")
		}
		return getenv(name)
	}
	span := func(name, standard string) time.Duration {
		d, err := time.ParseDuration(cmp.Or(getenv(name), standard))
		if err != nil || d <= 0 {
			wrong = append(wrong, name+" (such as "+standard+")")
		}
		return d
	}
	port, databaseURL := text("PORT", "8080", `[0-9]+`), text("DATABASE_URL", "postgres:///course", `.+`)
	apiKeys := text("API_KEYS", "key=tenant,key=tenant", `[^=,]+=[^=,]+(,[^=,]+=[^=,]+)*`)
	s := &service{
		psp:        psp{text("PSP_URL", "http://127.0.0.1:8082", `https?://.+`), text("PSP_SECRET", "a-secret", `.+`)},
		pspTimeout: span("PSP_TIMEOUT", "1s"),
		tenants:    map[[sha256.Size]byte]string{},
	}
	if wrong != nil {
		return fmt.Errorf("these settings are missing or wrong: %s", strings.Join(wrong, ", "))
	}
	for entry := range strings.SplitSeq(apiKeys, ",") {
		key, tenant, _ := strings.Cut(entry, "=")
		s.tenants[sha256.Sum256([]byte(key))] = tenant
	}
	var err error
	if s.store, err = openStore(ctx, databaseURL); err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer s.store.Close()

	server := &http.Server{Addr: "127.0.0.1:" + port, Handler: s.routes(), ReadTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	// Requests under way end first: one that has charged must still store the outcome.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.pspTimeout+2*storeTimeout)
	defer cancel()
	return server.Shutdown(ctx)
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", s.forTenant(s.postPayment))
	mux.HandleFunc("GET /idempotency-keys/{key}", s.forTenant(s.getKey))
	mux.HandleFunc("POST /webhooks/psp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.store.Ping(r.Context()); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return mux
}

// forTenant passes on requests that have an API key, with the tenant of that key.
func (s *service) forTenant(handle func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		apiKey, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		tenant, known := s.tenants[sha256.Sum256([]byte(apiKey))]
		if !known {
			problem(http.StatusUnauthorized, "unauthenticated", "Send a valid API key.").write(w)
			return
		}
		handle(w, r, tenant)
	}
}
