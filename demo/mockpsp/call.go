package mockpsp

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	maxAccountLength = 64
	maxKeyLength     = 300
)

// call is one request under /v1 that was let in.
type call struct {
	w       http.ResponseWriter // only for its limits and deadlines; handlers return what to answer
	r       *http.Request
	account string
	note    *callNote
	tells   []*delivery // the webhooks of the entries that the call made; nil for an entry that has none
}

// v1 wraps what every endpoint of the API does first and last. The reply is delivered after the call was counted out:
// a client that reads slowly does not keep Close waiting.
func (s *Server) v1(handle func(*call) (Reply, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r, note: s.calls.begin(r, r.Header.Get("PSP-Account"), s.config.Now())}
		// Deferred, because some calls end by a panic.
		defer func() {
			for _, told := range c.tells {
				s.webhooks.release(told)
			}
		}()
		answer, err := s.admit(c, handle)
		if err != nil {
			answer = s.refuse(err)
		}
		s.calls.finish(c.note, answer.Outcome())
		answer.Deliver(w)
	})
}

func (s *Server) admit(c *call, handle func(*call) (Reply, error)) (Reply, error) {
	leave, err := s.Enter()
	if err != nil {
		return Reply{}, err
	}
	defer leave()
	account, err := s.authenticate(c.r)
	if err != nil {
		return Reply{}, err
	}
	c.account = account
	return handle(c)
}

// authenticate checks the secret and returns the account that the call is for. One secret opens all accounts, as a
// platform's key does at real providers.
func (s *Server) authenticate(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given := sha256.Sum256([]byte(token))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(given[:], s.secretHash[:]) != 1 {
		return "", apiError{http.StatusUnauthorized, "unauthenticated", "the bearer token is not the PSP's secret"}
	}
	account, err := singleHeader(r, "PSP-Account", maxAccountLength)
	if err != nil {
		return "", err
	}
	return account, nil
}

// singleHeader returns a required header that must be sent once, as 1 to max printable ASCII characters.
func singleHeader(r *http.Request, name string, max int) (string, error) {
	values := r.Header.Values(name)
	if len(values) != 1 || !IsPrintable(values[0], max) {
		return "", invalid(fmt.Sprintf("the header %s must be sent once, as 1 to %d printable ASCII characters", name,
			max))
	}
	return values[0], nil
}

// IsPrintable tells whether a text is 1 to max printable ASCII characters.
func IsPrintable(text string, max int) bool {
	return len(text) > 0 && len(text) <= max &&
		strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// Hold keeps a request without an answer until the client goes, the limit has passed or the server closes.
func (s *Server) Hold(w http.ResponseWriter, r *http.Request) {
	// A read deadline of the http.Server would cancel the context as if the client had gone. Where a server supports
	// none there is none to lift, so there is no error to handle.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	limit := time.NewTimer(s.config.HangLimit)
	defer limit.Stop()
	select {
	case <-r.Context().Done():
	case <-limit.C:
	case <-s.closing:
	}
}

// Pause waits for d, or until the server closes. It outlives the client on purpose: a slow PSP charges all the same.
func (s *Server) Pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closing:
	}
}

func noSuchEndpoint(c *call) (Reply, error) {
	return Reply{}, apiError{http.StatusNotFound, "not_found", "there is no " + c.r.Method + " " + c.r.URL.Path}
}
