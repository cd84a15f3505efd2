package e2e

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
)

// way is the way between us and the PSP, on which requests and answers get lost.
type way struct {
	requests, answers sync.Map    // the keys of movements under which they do
	deaf              atomic.Bool // lookups are answered 500
	lists             sync.Map    // what lists have been asked for, by their raw query
	closed            atomic.Pointer[gate]
}

// hold has lookups wait from now on, until the gate is opened.
func (y *way) hold() *gate {
	g := newGate()
	y.closed.Store(g)
	return g
}

// loseRequests has every request under a key lost before the PSP sees it. Nobody here can tell that from a lost answer.
func (y *way) loseRequests(key string) { y.requests.Store(key, true) }

// loseAnswers has the answer to every request under a key lost.
func (y *way) loseAnswers(key string) { y.answers.Store(key, true) }

func (y *way) wrap(psp http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			y.list(psp, rw, r)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if _, lost := y.requests.Load(key); lost {
			panic(http.ErrAbortHandler)
		}
		if _, lost := y.answers.Load(key); lost {
			psp.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		psp.ServeHTTP(rw, r)
	})
}

func (y *way) list(psp http.Handler, rw http.ResponseWriter, r *http.Request) {
	y.lists.Store(r.URL.RawQuery, true)
	if g := y.closed.Load(); g != nil {
		g.wrap(psp).ServeHTTP(rw, r)
		return
	}
	if y.deaf.Load() {
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	psp.ServeHTTP(rw, r)
}
