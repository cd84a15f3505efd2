package mockpsp

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	note    Call
	tells   []func() // release the webhooks of the entries that the call made
}

// v1 wraps what every endpoint of the API does first and last. The reply is delivered after the call was counted out:
// a client that reads slowly does not keep Close waiting.
func (s *Server) v1(handle func(*call) (Reply, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r, note: s.BeginCall(r, r.Header.Get("PSP-Account"))}
		// Deferred, because some calls end by a panic.
		defer func() {
			for _, release := range c.tells {
				release()
			}
		}()
		answer, err := s.admit(c, handle)
		if err != nil {
			answer = s.refuse(err)
		}
		c.note.Finish(answer.Outcome())
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

const (
	maxBodyBytes      = 16 << 10
	maxAmountCents    = 999_999_999_999
	maxReferenceRunes = 255
	maxReasonRunes    = 500
)

// keyedBody reads what every POST under /v1 carries: a key and a JSON body.
func (c *call) keyedBody() (key string, body []byte, err error) {
	key, err = singleHeader(c.r, "Idempotency-Key", maxKeyLength)
	if err != nil {
		return "", nil, err
	}
	mediaType, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return "", nil, invalid("the Content-Type must be application/json")
	}
	body, err = readBody(c.w, c.r)
	return key, body, err
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, apiError{http.StatusRequestEntityTooLarge, "body_too_large",
			fmt.Sprintf("the body is larger than %d bytes", maxBodyBytes)}
	}
	if err != nil {
		return nil, invalid("the body could not be read")
	}
	return body, nil
}

// parseStrictly refuses unknown, duplicate and differently-cased members, trailing data, and numbers that are not
// plain integers where an integer is due.
func parseStrictly(body []byte, into any) error {
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return invalid("the body names a member twice")
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(semantic.Err, json.ErrUnknownName) {
			return invalid(fmt.Sprintf("the body has an unknown member at %q", string(semantic.JSONPointer)))
		}
		return invalid(fmt.Sprintf("the body has a value of the wrong type at %q", string(semantic.JSONPointer)))
	}
	return invalid("the body is not one JSON value")
}

// checkMoney checks what charges and refunds have in common.
func checkMoney(amountCents int64, currency, reference string) error {
	if amountCents < 1 || amountCents > maxAmountCents {
		return invalid(fmt.Sprintf("amountCents must be an integer from 1 to %d", int64(maxAmountCents)))
	}
	if len(currency) != 3 || !isUpperLetter(currency[0]) || !isUpperLetter(currency[1]) || !isUpperLetter(currency[2]) {
		return invalid("currency must be three capital letters")
	}
	if utf8.RuneCountInString(reference) > maxReferenceRunes {
		return invalid(fmt.Sprintf("reference must not be longer than %d characters", maxReferenceRunes))
	}
	return nil
}

func isUpperLetter(b byte) bool { return 'A' <= b && b <= 'Z' }
