package httpproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// serve carries one call. Whatever goes wrong on the way closes the connection: the program sees that the network
// failed, and no answer that the service has not given.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.inFlight.Add(1)
	defer p.inFlight.Done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	c := Call{Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header, Body: body}
	if p.options.Name != nil {
		c.Name = p.options.Name(r)
	}
	if p.options.Arrived != nil {
		p.options.Arrived(c)
	}
	e := p.meet(c)
	if e == nil {
		p.pass(w, r, body)
		return
	}
	switch {
	case e.do == CutDuring:
		p.during(r, body, e)
	case e.do.after():
		p.after(w, r, body, e)
	default:
		p.before(w, r, body, e)
	}
}

// during is for the program that is cut off while the service works.
func (p *Proxy) during(r *http.Request, body []byte, e *Event) {
	ctx, cancel := p.onItsWay(r)
	passed := r.WithContext(ctx)
	p.inFlight.Go(func() {
		defer cancel()
		_, _ = p.ask(passed, body)
		close(e.landed)
	})
	close(e.reached)
	p.held(e)
	panic(http.ErrAbortHandler)
}

// before is for actions that keep a call from the service.
func (p *Proxy) before(w http.ResponseWriter, r *http.Request, body []byte, e *Event) {
	close(e.reached)
	do := e.do
	if do == HoldBefore {
		do = p.held(e)
	}
	switch do {
	case FailBefore:
		fail(w)
		return
	case HoldBefore:
		// Its sender's end does not stop it any more: it has been sent.
		ctx, cancel := p.onItsWay(r)
		defer cancel()
		answer, err := p.ask(r.WithContext(ctx), body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		close(e.landed)
		answer.deliver(w, len(answer.body))
		return
	case Pass, CutBefore, CutDuring, CutAfter, HalfAfter, FailAfter, RefuseAfter, HoldAfter:
	}
	panic(http.ErrAbortHandler)
}

// after is for actions that keep the answer from the program.
func (p *Proxy) after(w http.ResponseWriter, r *http.Request, body []byte, e *Event) {
	ctx, cancel := p.onItsWay(r)
	defer cancel()
	answer, err := p.ask(r.WithContext(ctx), body)
	close(e.reached)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	do := e.do
	if do == HoldAfter {
		do = p.held(e)
	}
	switch do {
	case FailAfter:
		fail(w)
		return
	case RefuseAfter:
		http.Error(w, "400 Bad Request", http.StatusBadRequest)
		return
	case HoldAfter:
		answer.deliver(w, len(answer.body))
		return
	case HalfAfter:
		answer.deliver(w, len(answer.body)/2)
	case Pass, CutBefore, FailBefore, HoldBefore, CutDuring, CutAfter:
	}
	panic(http.ErrAbortHandler)
}

// held waits until the event is released, and says as what; or until everything ends.
func (p *Proxy) held(e *Event) Action {
	select {
	case <-e.released:
		return e.then
	case <-p.over.Done():
		panic(http.ErrAbortHandler)
	}
}

// onItsWay is the life of a call that no longer depends on its sender.
func (p *Proxy) onItsWay(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), landTime)
	stop := context.AfterFunc(p.over, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// pass passes a call on as it is, and the answer as it comes.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, body []byte) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	timer := time.AfterFunc(p.options.Patience, cancel) // for the answer to begin
	res, err := p.forward(r.WithContext(ctx), body)
	timer.Stop()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	copyHeader(w, res)
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (p *Proxy) forward(r *http.Request, body []byte) (*http.Response, error) {
	upstream := p.options.Upstream()
	if upstream == "" {
		return nil, errNoService
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+upstream+r.URL.RequestURI(),
		bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("pass the call on: %w", err)
	}
	req.Header = r.Header.Clone()
	// Otherwise the transport would send it twice by itself. A body that shows that it is empty has the same effect if
	// there is an Idempotency-Key.
	req.GetBody, req.Body = nil, io.NopCloser(req.Body)
	return p.client.Do(req)
}

// answer of the service, kept.
type answer struct {
	res  *http.Response
	body []byte
}

func (p *Proxy) ask(r *http.Request, body []byte) (answer, error) {
	res, err := p.forward(r, body)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	kept, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	return answer{res, kept}, err
}

// deliver sends the first bytes of an answer, under the length of all of them.
func (a answer) deliver(w http.ResponseWriter, first int) {
	copyHeader(w, a.res)
	if len(a.body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.res.StatusCode)
	_, _ = w.Write(a.body[:first])
	_ = http.NewResponseController(w).Flush()
}

func copyHeader(w http.ResponseWriter, res *http.Response) {
	for name, values := range res.Header {
		w.Header()[name] = values
	}
}

func fail(w http.ResponseWriter) {
	http.Error(w, "the proxy fails this call", http.StatusInternalServerError)
}
