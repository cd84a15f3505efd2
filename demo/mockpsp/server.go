package mockpsp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Server is the mock PSP. It is an [http.Handler], and [Server.Serve] serves it; its caller opens the listener.
type Server struct {
	config     Config
	secretHash [sha256.Size]byte
	handler    http.Handler
	ledger     *ledger
	faults     *Rates
	disorders  *Rates
	rates      []*Rates // the two above, and those that only another dialect has
	calls      *callLog
	page       *template.Template
	late       Timers
	webhooks   *Outbox

	outbox        *Outbox                                // of another dialect; nil while none is served
	forgetDialect func(account, key string) (int, error) // likewise
	doors         Doors                                  // likewise

	closing chan struct{} // closed when Close begins; ends every pause

	mu     sync.Mutex
	closed bool
	active sync.WaitGroup // calls that may still write to the ledger
}

// New opens the ledger, reads it back and resumes the late charges and undelivered webhooks in it. It fails when the
// config is incomplete, when another process holds the ledger, or when a file has a damaged line other than a torn
// last one.
func New(config Config) (*Server, error) {
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("check the mock PSP's config: %w", err)
	}
	ledger, err := openLedger(config)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	key, _ := webhookKey(config.WebhookSecret) // checked with the config, where there is a URL
	path := ""
	if config.LedgerPath != "" {
		path = config.LedgerPath + webhooksSuffix
	}
	faults, disorders := newFaultRates(config.Rand), newDisorderRates(split(config.Rand))
	hooks, err := newOutbox(config, path, signer(key), disorders, subjects(ledger.lines(), config.SilentAccount))
	if err != nil {
		return nil, errors.Join(err, ledger.close())
	}
	s := &Server{
		config:     config,
		secretHash: sha256.Sum256([]byte(config.Secret)),
		ledger:     ledger,
		faults:     faults,
		disorders:  disorders,
		rates:      []*Rates{faults, disorders},
		calls:      &callLog{counts: map[caller]callCount{}},
		page:       parsePage(),
		webhooks:   hooks,
		closing:    make(chan struct{}),
	}
	s.handler = http.NewCrossOriginProtection().Handler(s.routes())
	for _, promise := range ledger.promises() {
		s.late.Start(promise.DueAt.Sub(config.Now()), func() { s.landLate(promise) })
	}
	for _, r := range ledger.unfinished() {
		s.follow(r)
	}
	return s, nil
}

// Close ends the held requests, waits for calls that are being executed, and closes the ledger. Late charges are on
// disk since they were promised and land after the next start, which also sends the webhooks that were not delivered.
// Requests under /v1 that come later are answered 503.
// Close the Server before or beside its http.Server, whose Shutdown would otherwise wait for the held requests.
func (s *Server) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return nil
	}
	close(s.closing)
	webhooksErr := s.webhooks.stop() // first: calls that send by hand end with it
	if s.outbox != nil {
		webhooksErr = errors.Join(webhooksErr, s.outbox.stop())
	}
	s.active.Wait()
	s.late.Stop()
	if err := errors.Join(s.ledger.close(), webhooksErr); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}

// Enter counts a call in that may write to the ledger: leave must be called at its end. There is an error while the
// server closes, and after a failed write.
func (s *Server) Enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, apiError{http.StatusServiceUnavailable, "shutting_down", "the PSP is shutting down"}
	}
	if err := s.ledger.health(); err != nil {
		return nil, err
	}
	s.active.Add(1)
	return s.active.Done, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/charges", s.v1(s.postCharge))
	mux.Handle("GET /v1/charges", s.v1(s.listOf(ObjectCharge)))
	mux.Handle("GET /v1/charges/{id}", s.v1(s.getCharge))
	mux.Handle("POST /v1/charges/{id}/refunds", s.v1(s.postRefund))
	mux.Handle("GET /v1/refunds", s.v1(s.listOf(ObjectRefund)))
	mux.Handle("GET /v1/disputes", s.v1(s.listOf(ObjectDispute)))
	mux.Handle("GET /v1/disputes/{id}", s.v1(s.getDispute))
	mux.Handle("GET /v1/settlements/{file}", s.v1(s.getSettlement))
	mux.Handle("GET /v1/payouts/{file}", s.v1(s.getPayout))
	mux.Handle("/v1/", s.v1(noSuchEndpoint))

	mux.HandleFunc("GET /_faults", s.getFaults)
	mux.HandleFunc("PUT /_faults", s.putFaults)
	mux.HandleFunc("DELETE /_keys", s.deleteKeys)
	mux.HandleFunc("GET /_ledger", s.getLedger)
	mux.HandleFunc("GET /_requests", s.getRequests)
	mux.HandleFunc("POST /_refunds", s.door(s.refundElsewhere))
	mux.HandleFunc("POST /_refunds/{id}/fail", s.door(s.failRefund))
	mux.HandleFunc("POST /_disputes", s.door(s.openDispute))
	mux.HandleFunc("POST /_disputes/{id}", s.door(s.changeDispute))
	mux.HandleFunc("POST /_payouts", s.door(s.payOut))
	mux.HandleFunc("POST /_adjustments", s.door(s.adjust))
	mux.HandleFunc("GET /_webhooks", s.getWebhooks)
	mux.HandleFunc("GET /_webhooks/{entryId}", s.getWebhook)
	mux.HandleFunc("POST /_webhooks/{entryId}", s.postWebhook)
	mux.HandleFunc("GET /{$}", s.getPage)
	mux.HandleFunc("POST /{$}", s.postPage)
	return mux
}

// stopLimit is how long answers that are being sent may take at the end.
const stopLimit = 10 * time.Second

// Serve serves the PSP until ctx ends, and closes it. It ends cleanly, also while requests are held that never get an
// answer.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.ServeDialect(ctx, l, s, s.Close)
}

// ServeDialect serves a handler with the limits of the PSP until ctx ends, and closes it. It serves another dialect
// beside [Server.Serve], which ends the requests that are held.
func (s *Server) ServeDialect(ctx context.Context, l net.Listener, handler http.Handler, close func() error) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60*time.Second + s.config.SlowDelay,
		// Longer than a client keeps idle connections (20 s), so that it is never the server that closes one first.
		IdleTimeout:    120 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve mock PSP: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return stop(context.WithoutCancel(ctx), server, close)
	})
	return group.Wait()
}

// stop closes both at once: Shutdown waits for the requests that only Close ends.
func stop(ctx context.Context, server *http.Server, close func() error) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	var group errgroup.Group
	group.Go(close)
	group.Go(func() error {
		if err := server.Shutdown(ctx); err != nil {
			return fmt.Errorf("shut down mock PSP: %w", errors.Join(err, server.Close()))
		}
		return nil
	})
	return group.Wait()
}
