package stripe

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"payonce/demo/mockpsp"
)

const (
	// defaultAccount is the account of requests without a Stripe-Account.
	defaultAccount   = "default"
	maxAccountLength = 64
)

// reply says how a call ends on the wire.
type reply = mockpsp.Reply

// call is one request under /v1.
type call struct {
	w       http.ResponseWriter // only for its limits and deadlines; handlers return what to answer
	r       *http.Request
	account string
	version string // of the API
	note    mockpsp.Call
	params  *params
	asked   asked
	tells   []func() // release the webhooks of the events that the call has caused
}

// v1 wraps what every endpoint does first and last. The reply is delivered after the call was counted out: a client
// that reads slowly does not keep the PSP from closing.
func (s *Server) v1(check func(*params) error, handle func(*call) (reply, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account := cmp.Or(r.Header.Get("Stripe-Account"), defaultAccount)
		c := &call{w: w, r: r, account: account, note: s.psp.BeginCall(r, account),
			version: cmp.Or(r.Header.Get("Stripe-Version"), s.config.APIVersion)}
		c.asked.from = origin{Request: newID("req_"), Key: r.Header.Get("Idempotency-Key")}
		c.asked.call = c
		// Deferred, because some calls end by a panic.
		defer func() {
			for _, release := range c.tells {
				release()
			}
		}()
		answered, err := s.admit(c, check, handle)
		if err != nil {
			answered = s.refuse(err)
		}
		c.note.Finish(answered.Outcome())
		s.setHeaders(c)
		answered.Deliver(w)
	})
}

func (s *Server) setHeaders(c *call) {
	header := c.w.Header()
	header.Set("Request-Id", c.asked.from.Request)
	if version.MatchString(c.version) {
		header.Set("Stripe-Version", c.version)
	}
	if c.asked.key.Key != "" {
		header.Set("Idempotency-Key", c.asked.key.Key)
	}
}

func (s *Server) admit(c *call, check func(*params) error, handle func(*call) (reply, error)) (reply, error) {
	leave, err := s.psp.Enter()
	if err != nil {
		return reply{}, err
	}
	defer leave()
	if err := s.authenticate(c.r); err != nil {
		return reply{}, err
	}
	isAccount := c.account == defaultAccount || strings.HasPrefix(c.account, "acct_")
	if !isAccount || !mockpsp.IsPrintable(c.account, maxAccountLength) {
		return reply{}, apiError{status: http.StatusForbidden, kind: invalidRequest, code: "account_invalid",
			message: "The provided key does not have access to this account, or the account does not exist."}
	}
	if !version.MatchString(c.version) {
		return reply{}, invalid("", "Invalid Stripe API version: "+c.version)
	}
	if s.rates.Hit(rateRateLimited) {
		return reply{}, rateLimited()
	}
	if c.params, err = readParams(c.w, c.r); err != nil {
		return reply{}, err
	}
	if err := check(c.params); err != nil {
		return reply{}, err
	}
	c.asked.expand = c.params.texts("expand")
	if c.r.Method == http.MethodGet && s.rates.Hit(rateRead500) {
		return reply{}, serverError()
	}
	return handle(c)
}

// authenticate checks the API key, which is a bearer token or the user of Basic authentication.
func (s *Server) authenticate(r *http.Request) error {
	given, _, isBasic := r.BasicAuth()
	if !isBasic {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if strings.EqualFold(scheme, "Bearer") {
			given = token
		}
	}
	sum := sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(sum[:], s.secretHash[:]) != 1 {
		return apiError{status: http.StatusUnauthorized, kind: invalidRequest, message: "Invalid API Key provided."}
	}
	return nil
}

// keyed wraps what every POST does about its key. Write checks the request and returns how to execute it: what it
// refuses, the key has never seen.
func (s *Server) keyed(e endpoint) func(*call) (reply, error) {
	return func(c *call) (reply, error) {
		key := c.r.Header.Get("Idempotency-Key")
		if len(key) > maxKeyLength {
			return reply{}, invalid("", "Idempotency keys can have up to 255 characters.")
		}
		c.asked.hash = hashRequest(c.r, c.params)
		execute, err := e.write(s, c)
		if err != nil || key == "" {
			if err != nil {
				return reply{}, err
			}
			return execute()
		}
		ref := keyRef{c.account, key}
		c.asked.key = ref
		saved, err := s.keys.reserve(c.asked, s.now())
		if err != nil {
			return reply{}, err
		}
		if saved != nil {
			c.w.Header().Set("Original-Request", saved.Request)
			return reply{Status: saved.Status, Body: []byte(saved.Body), Replayed: true}, nil
		}
		defer s.keys.release(ref)
		answered, err := execute()
		if err == nil && s.rates.Hit(rateKeyForgotten) {
			_, err = s.forget(keyFilter(ref))
		}
		return answered, err
	}
}

// forget drops the results that are saved, as if their time were over.
func (s *Server) forget(filter keyFilter) (int, error) {
	forgotten := s.keys.count(&filter)
	_, err := s.commit(asked{}, &work{change: change{Forgets: &filter}})
	return forgotten, err
}

// refuse turns an error into an answer. What is not meant for the caller is the ledger's trouble.
func (s *Server) refuse(err error) reply {
	e, ok := errors.AsType[apiError](err)
	if !ok {
		s.log.Error("call failed", "error", err)
		e = serverError()
	}
	return reply{Status: e.status, Body: mockpsp.Render(e.shown())}
}

// end delivers a result in the way of a fault.
func (s *Server) end(c *call, f fault, result reply) (reply, error) {
	if f.forgets && c.asked.key.Key != "" {
		if _, err := s.forget(keyFilter(c.asked.key)); err != nil {
			return reply{}, err
		}
	}
	if f.ending != mockpsp.EndAnswered {
		result.Ending = f.ending
	}
	if result.Ending == mockpsp.EndSilence {
		s.psp.Hold(c.w, c.r)
		result.Ending = mockpsp.EndCut
	}
	return result, nil
}
