package stripe

import (
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// reply says how a call ends on the wire.
type reply struct {
	ending   ending
	status   int
	body     []byte
	original string // the request that is answered once more, by its id
}

// outcome is the reply's name in GET /_requests.
func (p reply) outcome() string {
	switch {
	case p.ending == endCut || p.ending == endSilence:
		return "closed without an answer"
	case p.ending == endReset:
		return "reset"
	case p.original != "":
		return "replayed " + strconv.Itoa(p.status)
	default:
		return "answered " + strconv.Itoa(p.status)
	}
}

func (p reply) deliver(w http.ResponseWriter) {
	switch p.ending {
	case endCut, endSilence:
		// The one panic that net/http documents as "close the connection and log nothing".
		panic(http.ErrAbortHandler)
	case endReset:
		reset(w)
	default:
		header := w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Content-Length", strconv.Itoa(len(p.body)))
		if p.status == http.StatusUnauthorized {
			header.Set("WWW-Authenticate", `Bearer realm="Stripe"`)
		}
		w.WriteHeader(p.status)
		_, _ = w.Write(p.body) // the client may have gone; the ledger knows what happened
		_ = http.NewResponseController(w).Flush()
	}
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

// end delivers a result in the way of a fault.
func (s *Server) end(c *call, f fault, result reply) reply {
	if f.ending != endAnswered {
		result.ending = f.ending
	}
	if result.ending == endSilence {
		s.hold(c)
	}
	return result
}

// render renders a value of this package's own types.
func render(value any) []byte {
	text, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("stripe: render %T: %v", value, err)) // strings and numbers always render
	}
	return text
}
