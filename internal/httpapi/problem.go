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

	"github.com/go-json-experiment/json"

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
	afterHeld         = longestAfter // a person decides
	// longestAfter bounds them all. Some clients do not come back after more, or come back at once.
	longestAfter = 5 * time.Second
)

// problemFor maps errors to problems. An error that is not listed is a 500 without detail. again is what a client does
// about an error that passes by itself.
func problemFor(err error, again string) *requestError {
	if bad, is := errors.AsType[*payments.InvalidError](err); is {
		return invalid(bad.Details...)
	}
	switch {
	case isUnauthenticated(err):
		return &requestError{code: problem.Unauthenticated, detail: "This API key is not known, or has ended."}
	case errors.Is(err, payments.ErrPaymentNotFound):
		return &requestError{code: problem.NotFound, detail: "There is no such payment."}
	case errors.Is(err, payments.ErrRefundNotFound):
		return &requestError{code: problem.NotFound, detail: "There is no such refund."}
	case errors.Is(err, payments.ErrPaymentNotRefundable):
		return &requestError{code: problem.PaymentNotRefundable,
			detail: "Only a payment that has succeeded, under an id of the PSP, can be refunded."}
	case errors.Is(err, payments.ErrRefundExceedsPayment):
		return &requestError{code: problem.RefundExceedsPayment,
			detail: "All refunds of a payment together, and what is disputed, cannot exceed its amount. " +
				"The payment, its refunds and its disputes tell what is left. Nothing was returned by this request."}
	case postgres.Unavailable(err):
		return &requestError{code: problem.IdempotencyStoreUnavailable, after: afterStoreFailure,
			detail: "The store is not available. " + again}
	}
	return &requestError{code: problem.InternalError, after: afterStoreFailure,
		detail: "Something went wrong on our side. " + again}
}

func isUnauthenticated(err error) bool { return errors.Is(err, tenants.ErrUnauthenticated) }

// fail answers an error.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.failUntil(w, r, err, a.again)
}

// failUntil is fail for a client that does something else about an error that passes by itself.
func (a *API) failUntil(w http.ResponseWriter, r *http.Request, err error, again string) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		// The client has gone. Or it has only closed its half of the connection, and still reads: a plain return would
		// send it a 200.
		panic(http.ErrAbortHandler)
	}
	p, known := errors.AsType[*requestError](err)
	if !known {
		p = a.problemFor(err, again)
		switch {
		case p.code == problem.InternalError:
			a.config.Log.ErrorContext(r.Context(), "request failed", slog.String("request_id", requestIDOf(r)),
				slog.Any("error", err))
		case p.after > 0:
			a.config.Log.WarnContext(r.Context(), "refused for now", slog.String("request_id", requestIDOf(r)),
				slog.Any("error", err))
		}
	}
	if p.after > 0 {
		retryAfter(w, p.after)
	}
	a.refuse(w, r, p.code, p.detail, p.errors...)
}

// answer is the handler that answers 200 with what read returns.
func (a *API) answer(read func(http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return a.answerAs(http.StatusOK, read)
}

// answerAs is answer with another status. A 204 has no body.
func (a *API) answerAs(
	status int, read func(http.ResponseWriter, *http.Request) (any, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := read(w, r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if status == http.StatusNoContent {
			noContent(w)
			return
		}
		body, err := json.Marshal(v, json.Deterministic(true))
		if err != nil {
			a.fail(w, r, err)
			return
		}
		write(w, status, jsonType, append(body, '\n'))
	}
}

func noContent(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// refuse answers with a problem document.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, code problem.Code, detail string, errs ...problem.Detail) {
	d := a.problem(r, code, detail)
	d.Errors = errs
	writeProblem(w, d)
}

func (a *API) problem(r *http.Request, code problem.Code, detail string) problem.Document {
	// A path that begins with two slashes would name another host (RFC 3986, section 4.2).
	path := a.base + "/" + strings.TrimLeft(r.URL.EscapedPath(), "/")
	knownOf(r).code = code
	return problem.New(a.config.PublicURL, code, detail, path+"#"+requestIDOf(r))
}

func writeProblem(w http.ResponseWriter, d problem.Document) {
	write(w, d.Status, problem.ContentType, d.JSON())
}

// bufferedByServer is the length up to which net/http holds a body back, and sets Content-Length itself. Then a
// payment's answer has eight headers. With nine, their map and its copy in net/http would be three times as big.
const bufferedByServer = 2048

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	if len(body) > bufferedByServer {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // The client may have gone. The answer is stored.
}

// retryAfter sets the header in whole seconds (RFC 9110, section 10.2.3), rounded up. It never sets a date: many
// clients do not read one.
func retryAfter(w http.ResponseWriter, d time.Duration) {
	d = min(d, longestAfter)
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
}
