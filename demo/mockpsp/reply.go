package mockpsp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Reply says how a call ends on the wire. Handlers return it and Deliver acts on it, so that keys are free and calls
// are logged before the client can see the end.
type Reply struct {
	Ending   Ending
	Status   int
	Body     []byte
	Replayed bool
	csv      func(io.Writer) // written in place of a body, while it is being made
}

// Outcome is the reply's name in GET /_requests.
func (p Reply) Outcome() string {
	switch {
	case p.Ending == EndCut:
		return "closed without an answer"
	case p.Ending == EndReset:
		return "reset"
	case p.Replayed:
		return "replayed " + strconv.Itoa(p.Status)
	default:
		return "answered " + strconv.Itoa(p.Status)
	}
}

// Deliver ends the call.
func (p Reply) Deliver(w http.ResponseWriter) {
	switch p.Ending {
	case EndCut:
		// The one panic that net/http documents as "close the connection and log nothing".
		panic(http.ErrAbortHandler)
	case EndReset:
		reset(w)
	default:
		p.answer(w)
		// The call ends when the answer is out, and the webhook's delay is counted from there.
		_ = http.NewResponseController(w).Flush()
	}
}

func (p Reply) answer(w http.ResponseWriter) {
	header := w.Header()
	if p.csv != nil {
		header.Set("Content-Type", "text/csv; charset=utf-8")
		w.WriteHeader(p.Status)
		p.csv(w)
		return
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(p.Body)))
	if p.Replayed {
		header.Set("Idempotent-Replayed", "true")
	}
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.Body) // the client may have gone; the ledger knows what happened
}

// reset closes the connection so that the client sees a TCP reset: with SO_LINGER 0, close sends RST instead of FIN.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // not a plain connection: closing it is as near as we get
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// apiError is an error that the caller may read.
type apiError struct {
	status        int
	code, message string
}

func (e apiError) Error() string { return e.code + ": " + e.message }

func invalid(message string) apiError {
	return apiError{http.StatusBadRequest, "invalid_request", message}
}

// refuse turns an error into an answer. What is not a refusal is the ledger's trouble: the caller learns nothing but
// that the outcome is open.
func (s *Server) refuse(err error) Reply {
	if refused, ok := errors.AsType[apiError](err); ok {
		return errorReply(refused)
	}
	s.config.Log.Error("call failed", "error", err)
	return errorReply(apiError{http.StatusInternalServerError, "internal_error", "the PSP's ledger is unavailable"})
}

func errorReply(e apiError) Reply {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	return jsonReply(e.status, struct {
		Error detail `json:"error"`
	}{detail{e.code, e.message}})
}

func jsonReply(status int, value any) Reply {
	return Reply{Status: status, Body: Render(value)}
}

// Render renders a value of our own types. Some quote what was sent to us, valid UTF-8 or not.
func Render(value any) []byte {
	text, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("mockpsp: render %T: %v", value, err)) // strings and numbers always render
	}
	return text
}
