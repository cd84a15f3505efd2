package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/tenants"
)

// When the client should try again, for each cause.
const (
	afterInFlight     = time.Second
	afterUnknown      = 2 * time.Second
	afterPSPFailure   = 5 * time.Second
	afterStoreFailure = 2 * time.Second
	afterHeld         = time.Minute // a person decides
)

// problemFor maps errors to problems. An error that is not listed is a 500 without detail.
func problemFor(err error) (code problem.Code, detail string, after time.Duration) {
	switch {
	case isUnauthenticated(err):
		return problem.Unauthenticated, "This API key is not known, or has ended.", 0
	case errors.Is(err, payments.ErrPaymentNotFound):
		return problem.NotFound, "There is no such payment.", 0
	case errors.Is(err, payments.ErrRefundNotFound):
		return problem.NotFound, "There is no such refund.", 0
	case errors.Is(err, payments.ErrPaymentNotRefundable):
		return problem.PaymentNotRefundable,
			"Only a payment that has succeeded, under an id of the PSP, can be refunded.", 0
	case errors.Is(err, payments.ErrRefundExceedsPayment):
		return problem.RefundExceedsPayment, "All refunds of a payment together cannot exceed its amount. " +
			"The payment and its refunds tell what was given back, or may be.", 0
	case postgres.Unavailable(err):
		return problem.IdempotencyStoreUnavailable, "The store is not available. Send the same key again.",
			afterStoreFailure
	}
	return problem.InternalError, "Something went wrong on our side. Send the same key again.", afterStoreFailure
}

func isUnauthenticated(err error) bool { return errors.Is(err, tenants.ErrUnauthenticated) }

// fail answers an error.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		// The client has gone. Or it has only closed its half of the connection, and still reads: a plain return would
		// send it a 200.
		panic(http.ErrAbortHandler)
	}
	code, detail, after := problemFor(err)
	switch {
	case code == problem.InternalError:
		a.log.ErrorContext(r.Context(), "request failed", slog.String("request_id", requestIDOf(r)),
			slog.Any("error", err))
	case after > 0:
		a.log.WarnContext(r.Context(), "refused for now", slog.String("request_id", requestIDOf(r)),
			slog.Any("error", err))
	}
	if after > 0 {
		retryAfter(w, after)
	}
	a.refuse(w, r, code, detail)
}

// refuse answers with a problem document.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, code problem.Code, detail string, errs ...problem.Detail) {
	d := a.problem(r, code, detail)
	d.Errors = errs
	writeProblem(w, d)
}

// reject answers why a request was refused.
func (a *API) reject(w http.ResponseWriter, r *http.Request, bad *requestError) {
	a.refuse(w, r, bad.code, bad.detail, bad.errors...)
}

func (a *API) problem(r *http.Request, code problem.Code, detail string) problem.Document {
	// A path that begins with two slashes would name another host (RFC 3986, section 4.2).
	path := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/")
	knownOf(r).code = code
	return problem.New(a.publicURL, code, detail, path+"#"+requestIDOf(r))
}

func writeProblem(w http.ResponseWriter, d problem.Document) {
	write(w, d.Status, problem.ContentType, d.JSON())
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // The client may have gone. The answer is stored.
}

// retryAfter sets the header in whole seconds (RFC 9110, section 10.2.3), rounded up.
func retryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
}
