package history

import (
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// The routes whose keys are checked. Operations on others may be recorded; Check passes them over.
const (
	PaymentsRoute = "POST /payments"
	RefundsRoute  = "POST /payments/{id}/refunds"
)

// Operation is one request of a client, as the client saw it.
type Operation struct {
	Client int    // who asked; one client may ask for several things at a time
	API    string // which process was asked
	Tenant string
	Route  string
	Path   string // that was asked, without its query
	Key    string // in its bare form
	Prefer string // the header of that name, or ""
	// Life counts the generations of the key: it grows when the key is used again after its retention. The first is 1,
	// and 0 is the same.
	Life int
	// Intent is a digest of what was asked, made by the client from what it meant to ask: two operations have the same
	// one if and only if they should have the same fingerprint.
	Intent string
	Body   []byte // as it was sent

	// Call, Return and Failed count from the beginning of the history. Return is 0 for an operation that was never
	// answered as a whole: the client hung up, the connection was reset, the process was killed. Failed is when the
	// client saw that; 0 if it still waits, or has its answer.
	Call, Return, Failed time.Duration
	// At is Call on the machine's clock, by which the PSP dates its ledger.
	At time.Time

	Status  int
	Header  http.Header // those of keptHeaders
	Answer  []byte
	Failure string // why there is no answer
}

// Answered reports whether the client has heard the end of it.
func (o Operation) Answered() bool { return o.Return > 0 }

// keptHeaders are those that the contract promises for an answer.
var keptHeaders = []string{
	"Idempotency-Key", "Idempotent-Replayed", "Idempotency-Key-Expires", "Location", "Content-Type", "Retry-After",
	"Preference-Applied", "X-Request-Id", "Cache-Control",
}

func kept(from http.Header) http.Header {
	to := http.Header{}
	for _, name := range keptHeaders {
		if values := from.Values(name); len(values) > 0 {
			to[name] = values
		}
	}
	return to
}

// line is an operation as a file has it, for people to read: bytes are text wherever they are UTF-8.
type line struct {
	Client  int         `json:"client"`
	API     string      `json:"api,omitzero"`
	Tenant  string      `json:"tenant"`
	Route   string      `json:"route"`
	Path    string      `json:"path,omitzero"`
	Key     string      `json:"key"`
	Prefer  string      `json:"prefer,omitzero"`
	Life    int         `json:"life,omitzero"`
	Intent  string      `json:"intent"`
	Body    content     `json:"body,omitzero"`
	Call    int64       `json:"callNanos"`
	Return  int64       `json:"returnNanos,omitzero"`
	Failed  int64       `json:"failedNanos,omitzero"`
	At      time.Time   `json:"at,omitzero"`
	Status  int         `json:"status,omitzero"`
	Header  http.Header `json:"header,omitempty"`
	Answer  content     `json:"answer,omitzero"`
	Failure string      `json:"failure,omitzero"`
}

type content struct {
	Text   string `json:"text,omitzero"`
	Binary []byte `json:"base64,omitzero"` // what is not UTF-8
}

func contentOf(b []byte) content {
	if utf8.Valid(b) {
		return content{Text: string(b)}
	}
	return content{Binary: b}
}

func (o Operation) marshal() ([]byte, error) {
	raw, err := json.Marshal(line{
		o.Client, o.API, o.Tenant, o.Route, o.Path, o.Key, o.Prefer, o.Life, o.Intent, contentOf(o.Body), int64(o.Call),
		int64(o.Return), int64(o.Failed), o.At, o.Status, o.Header, contentOf(o.Answer), o.Failure,
	}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("marshal operation: %w", err)
	}
	return append(raw, '\n'), nil
}
