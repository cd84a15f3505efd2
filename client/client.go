package client

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Config says how to reach the API. BaseURL, APIKey and Store are required.
type Config struct {
	BaseURL string // such as https://pay.example
	APIKey  string // with the scope payments:write
	Store   Store  // of this Client alone: see Store

	// HTTPClient lends its Transport. Its cookies and its timeout are not used, and redirects are never followed. Nil
	// is http.DefaultTransport.
	HTTPClient *http.Client
	// Patience bounds a call whose context has no deadline. 0 is one minute.
	Patience time.Duration
	// AttemptTimeout bounds one attempt. 0 is 20 seconds, which is longer than the server needs in the worst case.
	AttemptTimeout time.Duration
	// KeyLife is how long a key may be sent after it was stored. 0 is 24 hours. It must be shorter than the server's
	// KEY_RETENTION, which is 48 hours by default: by more than a clock of the caller is ever set back.
	KeyLife time.Duration

	// The sources of time and of chance, for tests. Nil is the real one.
	Now    func() time.Time
	Jitter func(limit time.Duration) time.Duration // uniform from [0, limit)
	Random io.Reader                               // of keys; must be cryptographic
}

// The defaults.
const (
	defaultPatience = time.Minute
	defaultAttempt  = 20 * time.Second
	defaultKeyLife  = 24 * time.Hour
)

// maxClockError is how far ahead of our clock the clock may have been that made a record: two machines never agree
// quite.
const maxClockError = time.Minute

// Client pays. It is safe for concurrent use.
type Client struct {
	config Config
	url    string
	http   *http.Client

	mu   sync.Mutex
	busy map[string]chan struct{} // the intents that a call works on; closed when the call is done
}

// New checks the configuration. It sends nothing.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") ||
		base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("client: BaseURL must be an http or https URL without user, query and fragment")
	}
	if c.Store == nil || c.APIKey == "" {
		return nil, errors.New("client: Store and APIKey are required")
	}
	if c.Patience < 0 || c.AttemptTimeout < 0 || c.KeyLife < 0 {
		return nil, fmt.Errorf("client: times must not be negative: %s, %s, %s", c.Patience, c.AttemptTimeout,
			c.KeyLife)
	}
	c.Patience = orDefault(c.Patience, defaultPatience)
	c.AttemptTimeout = orDefault(c.AttemptTimeout, defaultAttempt)
	c.KeyLife = orDefault(c.KeyLife, defaultKeyLife)
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // a caller that injects no clock gets the real one
	}
	if c.Jitter == nil {
		c.Jitter = func(limit time.Duration) time.Duration { return mathrand.N(max(1, limit)) }
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	address := strings.TrimRight(c.BaseURL, "/") + "/payments"
	return &Client{config: c, url: address, http: withoutRedirects(c.HTTPClient), busy: map[string]chan struct{}{}}, nil
}

func orDefault(given, otherwise time.Duration) time.Duration {
	if given == 0 {
		return otherwise
	}
	return given
}

// withoutRedirects copies the caller's client. A redirect would send the API key and the payment to another address.
func withoutRedirects(given *http.Client) *http.Client {
	c := http.Client{Transport: http.DefaultTransport}
	if given != nil && given.Transport != nil {
		c.Transport = given.Transport
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}
