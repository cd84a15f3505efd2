package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"payonce/internal/gateway"
)

// This file stands in for transport.go when the bench builds the API (go build -overlay): a PSP in the same process, which takes no time but
// BENCH_PSP_MS and charges everything, in both dialects. Not a byte of the rest differs from the binary that people run.

func newTransport(gateway.Limits) http.RoundTripper {
	ms, err := strconv.Atoi(os.Getenv("BENCH_PSP_MS"))
	if err != nil {
		ms = 0
	}
	// Ids must not repeat over restarts on one database.
	return &inProcess{delay: time.Duration(ms) * time.Millisecond, prefix: "ch_" + strconv.FormatInt(time.Now().UnixNano(), 36) + "_"}
}

type inProcess struct {
	delay   time.Duration
	prefix  string
	n       atomic.Int64
	intents sync.Map // what Stripe's objects have in common before and after they are confirmed, by id
}

// RoundTrip answers a charge with what was asked, as one that succeeded.
func (p *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return nil, errors.New("the PSP in process takes charges only")
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	asked, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if p.delay > 0 {
		time.Sleep(p.delay)
	}
	if strings.HasPrefix(r.URL.Path, "/v1/payment_intents") {
		b, err := p.stripe(r.URL.Path, asked)
		return p.answer(r, http.StatusOK, b), err
	}
	if len(asked) < 2 {
		return nil, errors.New("no body")
	}
	b := make([]byte, 0, len(asked)+256)
	b = append(b, `{"object":"charge","status":"succeeded","createdAt":"2026-11-20T12:00:00Z","id":"`...)
	b = append(b, p.prefix...)
	b = strconv.AppendInt(b, p.n.Add(1), 36)
	b = append(b, `","account":"`...)
	b = append(b, r.Header.Get("PSP-Account")...)
	b = append(b, `","idempotencyKey":"`...)
	b = append(b, r.Header.Get("Idempotency-Key")...)
	b = append(b, `",`...)
	b = append(b, asked[1:]...)
	return p.answer(r, http.StatusCreated, b), nil
}

// stripe answers in Stripe's dialect: it makes an object, and executes it when it is confirmed.
func (p *inProcess) stripe(path string, asked []byte) ([]byte, error) {
	if id, ok := strings.CutSuffix(strings.TrimPrefix(path, "/v1/payment_intents/"), "/confirm"); ok {
		rest, made := p.intents.LoadAndDelete(id)
		if !made {
			return nil, errors.New("no such intent")
		}
		return fmt.Appendf(nil, `{"id":%q,"status":"succeeded",%s`, id, rest), nil
	}
	form, err := url.ParseQuery(string(asked))
	if err != nil {
		return nil, err
	}
	id := "pi_" + strings.TrimPrefix(p.prefix, "ch_") + strconv.FormatInt(p.n.Add(1), 36)
	amount := form.Get("amount")
	rest := fmt.Sprintf(`"object":"payment_intent","amount":%s,"amount_received":%[1]s,"currency":%q,"created":1795953600,"metadata":{`, amount,
		form.Get("currency"))
	for name := range form {
		if key, ok := strings.CutPrefix(name, "metadata["); ok {
			rest += fmt.Sprintf("%q:%q,", strings.TrimSuffix(key, "]"), form.Get(name))
		}
	}
	rest = strings.TrimSuffix(rest, ",") + "}}"
	p.intents.Store(id, rest)
	return fmt.Appendf(nil, `{"id":%q,"status":"requires_confirmation",%s`, id, rest), nil
}

func (p *inProcess) answer(r *http.Request, status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}
