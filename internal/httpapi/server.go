package httpapi

import (
	"log/slog"
	"net/http"
	"time"
)

// WriteTimeout bounds the time from the request's headers to the end of the answer.
const WriteTimeout = 30 * time.Second

// NewServer returns a server with the limits of the contract. Each limit bounds what a slow or idle client can occupy.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// Otherwise net/http would answer OPTIONS * itself: with 200, without a request id and without a log line.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
