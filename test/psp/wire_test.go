package psp

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"payonce/test/heldport"
)

// wire is what lies between the client and the provider: one HTTP server, whose handler is the mock's unless a fault is
// armed.
type wire struct {
	t       *testing.T
	address string // held until the test ends

	mu       sync.Mutex
	server   *http.Server
	listener net.Listener
	handler  http.Handler
	stepOf   func(*http.Request) string
	cut      string // the fault that strikes once, at the step
	step     string
	struck   bool
	strays   int // requests that followed a redirect
	seen     map[string]int
	refuses  func(*http.Request) bool
	// Stripe's own library sends its bodies in chunks.
	takesChunks bool
}

func openWire(t *testing.T, stepOf func(*http.Request) string) *wire {
	t.Helper()
	w := &wire{t: t, address: heldport.Address(t), stepOf: stepOf, seen: map[string]int{}}
	w.up()
	t.Cleanup(w.down)
	return w
}

func (w *wire) url() string { return "http://" + w.address }

func (w *wire) up() {
	w.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{Handler: w, ReadHeaderTimeout: patience}
	w.mu.Lock()
	w.server, w.listener = server, l
	w.mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

// down refuses connections until up.
func (w *wire) down() {
	w.mu.Lock()
	server, listener := w.server, w.listener
	w.mu.Unlock()
	_ = listener.Close() // the server does not know it yet if it has just been started
	_ = server.Close()
}

// connect has the wire lead to a mock.
func (w *wire) connect(to http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handler = to
}

// arm has the next request of a step meet a fault.
func (w *wire) arm(cut, step string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut, w.step, w.struck = cut, step, false
}

// sent counts the requests that have arrived at a step.
func (w *wire) sent(step string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[step]
}

// disarm reports whether the fault has struck.
func (w *wire) disarm() (struck bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = ""
	return w.struck
}

// refusing reports whether connections are refused from this step on.
func (w *wire) refusing(step string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut != cutRefused || w.step != step || w.struck {
		return false
	}
	w.struck = true
	return true
}

// isSilent reports whether the call that begins with this step may meet silence. Then the client must give up soon. A
// call that only prepares meets its own step, and no other.
func (w *wire) isSilent(step string, prepares bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut == cutSilent && !w.struck && (!prepares || step == w.step)
}

func (w *wire) meets(r *http.Request) (cut string, to http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.URL.Path == strayPath {
		w.strays++
	}
	w.seen[w.stepOf(r)]++
	if w.cut == "" || w.struck || w.cut == cutRefused || w.stepOf(r) != w.step {
		return "", w.handler
	}
	w.struck = true
	return w.cut, w.handler
}

// The faults of the wire.
const (
	cutRefused    = "connection refused"
	cutLost       = "lost on the way there"
	cutLostAnswer = "answer lost"
	cutSilent     = "silence"
	cut500        = "500 of a proxy"
	cut500Answer  = "500 of a proxy in place of the answer"
	cut429        = "429 of a proxy"
	cut409        = "409 of a proxy"
	cut404        = "404 of a proxy"
	cut401        = "401"
	cutRedirect   = "redirect"
	cutGarbage    = "not JSON in place of the answer"
	cutHalf       = "half an answer"
	cutLong       = "answer too long"
	cutAmount     = "answer with another amount"
	cutCurrency   = "answer with another currency"
	cutReference  = "answer with another reference"
	cutKey        = "answer with another key"
	cutAccount    = "answer with another account"
	cutID         = "answer with another id"

	strayPath = "/elsewhere"
)

func (w *wire) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	cut, to := w.meets(r)
	if r.ContentLength < 0 && !w.takesChunks { // as some proxies do
		http.Error(out, "<h1>say how long it is</h1>", http.StatusLengthRequired)
		return
	}
	if w.refuses != nil && w.refuses(r) {
		http.Error(out, `{"error":{"type":"invalid_request_error","code":"key_too_long","message":"too long"}}`, 400)
		return
	}
	switch cut {
	case "":
		to.ServeHTTP(out, r)
	case cutLost:
		panic(http.ErrAbortHandler)
	case cutSilent:
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a client that goes only after the body
		<-r.Context().Done()
	case cut500:
		http.Error(out, "<h1>no upstream</h1>", http.StatusInternalServerError)
	case cut429:
		http.Error(out, "<h1>slow down</h1>", http.StatusTooManyRequests)
	case cut409:
		http.Error(out, "<h1>conflict</h1>", http.StatusConflict)
	case cut404:
		http.Error(out, "<h1>nothing here</h1>", http.StatusNotFound)
	case cut401:
		http.Error(out, `{"error":{"type":"invalid_request_error","message":"no"}}`, http.StatusUnauthorized)
	case cutRedirect:
		http.Redirect(out, r, strayPath, http.StatusTemporaryRedirect)
	default:
		w.alter(cut, to, out, r)
	}
}

// alter has the provider answer, and changes the answer.
func (w *wire) alter(cut string, to http.Handler, out http.ResponseWriter, r *http.Request) {
	answered := httptest.NewRecorder()
	to.ServeHTTP(answered, r)
	body, status := answered.Body.String(), answered.Code
	switch cut {
	case cutLostAnswer:
		panic(http.ErrAbortHandler)
	case cut500Answer:
		body, status = "<h1>no answer</h1>", http.StatusInternalServerError
	case cutGarbage:
		body = "<h1>welcome</h1>"
	case cutLong:
		body = "{" + strings.Repeat(" ", 17<<20) + body[1:]
	case cutHalf:
		out.Header().Set("Content-Length", strconv.Itoa(len(body)))
		out.WriteHeader(status)
		_, _ = io.WriteString(out, body[:len(body)/2])
		panic(http.ErrAbortHandler)
	default:
		body = w.altered(cut, body)
	}
	for name, values := range answered.Header() {
		if name != "Content-Length" {
			out.Header()[name] = values
		}
	}
	out.WriteHeader(status)
	_, _ = io.WriteString(out, body)
}

var idMember = regexp.MustCompile(`"id":"([a-z]+_)[a-z0-9]+"`)

func (w *wire) altered(cut, body string) string {
	before := body
	switch cut {
	case cutAmount:
		body = strings.ReplaceAll(body, fmt.Sprint(amount), fmt.Sprint(amount+1))
	case cutCurrency:
		body = strings.NewReplacer(`"USD"`, `"EUR"`, `"usd"`, `"eur"`).Replace(body)
	case cutReference:
		body = strings.ReplaceAll(body, reference, "of_somebody_else")
	case cutKey:
		body = strings.ReplaceAll(body, key, "key-of-somebody-else")
	case cutAccount:
		body = strings.ReplaceAll(body, `"acct_acme"`, `"acct_globex"`)
	case cutID:
		body = idMember.ReplaceAllString(body, `"id":"${1}somebodyelse"`)
	}
	if body == before {
		w.t.Errorf("%s: there is nothing to alter in %s", cut, body)
	}
	return body
}

// cuts are the faults that can strike at a step.
func cuts(s Step, entry bool) (faults []Fault) {
	names := []string{
		cutLost, cutLostAnswer, cut500, cut500Answer, cut429, cut409, cut404, cut401, cutRedirect, cutGarbage, cutHalf,
		cutLong, cutSilent,
	}
	if entry {
		names = append(names, cutRefused)
	}
	if s.Answer {
		names = append(names, cutAmount, cutCurrency, cutReference, cutKey, cutID)
	}
	if s.Account {
		names = append(names, cutAccount)
	}
	for _, name := range names {
		f := Fault{Name: name, Token: s.Token, Cut: name, Step: s.Name, Long: name == cutSilent}
		if name == cutID {
			// Without an earlier id, nobody can tell. An object that is not there says nothing of one that is.
			f.WrongID, f.Open = !s.Known && s.Name != "create", s.Name == "create"
		}
		faults = append(faults, f)
	}
	return faults
}

// lateCuts are the same faults while a movement is late.
func lateCuts(s Step, entry bool) []Fault {
	s.Token = s.Late
	faults := cuts(s, entry)
	for i := range faults {
		faults[i].Name += " with " + s.Late
	}
	return faults
}

// longestWait is how long the client waits for an answer in the call that meets silence.
const longestWait = 2 * time.Second
