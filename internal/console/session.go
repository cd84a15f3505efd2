package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"payonce/internal/tenants"
)

const (
	cookieName    = "payonce_console"
	sessionLength = 12 * time.Hour
	maxCookie     = 1024
	maxSignedOut  = 10_000
)

var errNoSession = errors.New("no session")

// sessions seals and opens session cookies. A cookie has the operator's API key and the end of the session, and only
// processes with the same secret can read it. So a session ends when its API key ends. If the secret is a setting, the
// session survives a restart.
type sessions struct {
	seal cipher.AEAD
	now  func() time.Time

	mu sync.Mutex
	// signedOut are the sessions that somebody has ended, sealed, with the end that they would have had. Somebody else
	// may have a copy of the cookie. Only this process knows of them: the end of the API key ends a session everywhere.
	signedOut map[string]time.Time
}

// newSessions derives the key from a secret of any length.
func newSessions(secret []byte, now func() time.Time) (*sessions, error) {
	key := sha256.Sum256(secret)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	return &sessions{seal: seal, now: now, signedOut: map[string]time.Time{}}, err
}

// cookie is a new session for an API key.
func (s *sessions) cookie(apiKey string, secure bool) *http.Cookie {
	end := s.now().Add(sessionLength)
	plain := append(binary.BigEndian.AppendUint64(nil, uint64(end.Unix())), apiKey...) //nolint:gosec // after 1970
	return &http.Cookie{
		Name: cookieName, Value: base64.RawURLEncoding.EncodeToString(s.seal.Seal(nil, nil, plain, nil)),
		Path: "/console", MaxAge: int(sessionLength.Seconds()), Secure: secure, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}
}

// ended is the cookie that removes a session from the browser.
func ended() *http.Cookie {
	return &http.Cookie{Name: cookieName, Path: "/console", MaxAge: -1, HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
}

// signOut ends a request's session, and remembers it until its end. If there are too many, it forgets another one.
func (s *sessions) signOut(r *http.Request) {
	_, sealed, end, err := s.open(r)
	if err != nil {
		return
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.signedOut, func(_ string, end time.Time) bool { return !now.Before(end) })
	for other := range s.signedOut {
		if len(s.signedOut) < maxSignedOut {
			break
		}
		delete(s.signedOut, other)
	}
	s.signedOut[sealed] = end
}

// open reads a request's session. It fails with errNoSession.
func (s *sessions) open(r *http.Request) (apiKey, sealed string, end time.Time, err error) {
	cookie, err := r.Cookie(cookieName)
	if err != nil || len(cookie.Value) > maxCookie {
		return "", "", time.Time{}, errNoSession
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cookie.Value)
	if err != nil {
		return "", "", time.Time{}, errNoSession
	}
	plain, err := s.seal.Open(nil, nil, raw, nil)
	if err != nil || len(plain) < 8 {
		return "", "", time.Time{}, errNoSession
	}
	end = time.Unix(int64(binary.BigEndian.Uint64(plain)), 0) //nolint:gosec // we have written it
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, over := s.signedOut[string(raw)]; over || !s.now().Before(end) {
		return "", "", time.Time{}, errNoSession
	}
	return string(plain[8:]), string(raw), end, nil
}

// operator is the principal of a request's session. It fails with errNoSession, or because the API keys cannot be read.
// A program that reads may send its API key in place of a session. Another site cannot have a browser do that. What
// changes something needs a session here, because the operator's API is there for programs.
func (c *Console) operator(r *http.Request) (tenants.Principal, error) {
	if apiKey, sent := bearer(r); sent && r.Method == http.MethodGet {
		return c.authenticate(r, apiKey)
	}
	apiKey, _, _, err := c.sessions.open(r)
	if err != nil {
		return tenants.Principal{}, err
	}
	return c.authenticate(r, apiKey)
}

// authenticate accepts an API key that may read what operators read.
func (c *Console) authenticate(r *http.Request, apiKey string) (tenants.Principal, error) {
	p, err := c.config.Directory.Authenticate(r.Context(), apiKey)
	switch {
	case errors.Is(err, tenants.ErrUnauthenticated):
		return tenants.Principal{}, errNoSession
	case err != nil:
		return tenants.Principal{}, err
	case p.Tenant != "" || !p.May(tenants.OpsRead):
		return tenants.Principal{}, errNoSession
	}
	return p, nil
}

// bearer is the API key in the header of a request (RFC 6750).
func bearer(r *http.Request) (apiKey string, sent bool) {
	scheme, apiKey, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(apiKey), strings.EqualFold(scheme, "Bearer")
}

// signInView is the form where people sign in.
type signInView struct {
	Next    string
	Refused string // why the last try was refused; or ""
}

func (c *Console) signInForm(w http.ResponseWriter, r *http.Request) {
	if _, err := c.operator(r); err == nil {
		http.Redirect(w, r, c.ownPath(r.URL.Query().Get("next")), http.StatusSeeOther)
		return
	}
	c.show(w, r, http.StatusOK, "signin.html", "Sign in", nil, signInView{Next: c.ownPath(r.URL.Query().Get("next"))})
}

// signIn begins a session. The API key is in the body, so it does not appear in any URL or log.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	apiKey, next := strings.TrimSpace(r.PostFormValue("key")), c.ownPath(r.PostFormValue("next"))
	_, err := c.authenticate(r, apiKey)
	switch {
	case errors.Is(err, errNoSession):
		c.show(w, r, http.StatusUnauthorized, "signin.html", "Sign in", nil, signInView{Next: next,
			Refused: "This is not the API key of an operator, or it has ended."})
	case err != nil:
		c.explain(w, r, err)
	default:
		secure := r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
		http.SetCookie(w, c.sessions.cookie(apiKey, secure))
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	c.sessions.signOut(r)
	http.SetCookie(w, ended())
	http.Redirect(w, r, "/console/sign-in", http.StatusSeeOther)
}

// ownPath is a path of the console, or of the page beside it, so that nobody is led elsewhere after signing in.
func (c *Console) ownPath(next string) string {
	if u, err := url.Parse(next); err == nil && c.config.DemoPage != "" && u.Host == "" && u.Scheme == "" &&
		u.Path == c.config.DemoPage {
		return (&url.URL{Path: c.config.DemoPage, RawQuery: u.Query().Encode()}).String()
	}
	if !strings.HasPrefix(next, "/console/") || strings.HasPrefix(next, "/console/sign-") ||
		strings.ContainsAny(next, "\\\r\n") {
		return "/console/"
	}
	return next
}
