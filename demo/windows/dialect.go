package windows

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// Dialect is what the proxies must know of the provider: which of its calls is which.
type Dialect struct {
	// TwoSteps: the provider makes an object first, and executes it afterwards. An object that is not executed can be
	// cancelled.
	TwoSteps bool
	// name is the name of a call that can be held, or "".
	name func(*http.Request) string
	// object is the form of the ids of the provider's objects, which name an object in the paths of calls. It is nil if
	// the calls have the key.
	object *regexp.Regexp
	// news is the type of the webhook that reports a charge. It is "" if there is no other.
	news string
}

// Native is the dialect of the mock PSP itself.
func Native() Dialect {
	return Dialect{name: func(r *http.Request) string {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/v1/charges":
			return charge
		case r.Method == http.MethodGet && r.URL.Query().Has("idempotencyKey"):
			return lookup
		}
		return ""
	}}
}

// Stripe is Stripe's dialect. The confirmation of a PaymentIntent moves the money.
func Stripe() Dialect {
	const intents = "/v1/payment_intents/"
	return Dialect{
		TwoSteps: true, object: regexp.MustCompile(`pi_[0-9A-Za-z]+`), news: "payment_intent.succeeded",
		name: func(r *http.Request) string {
			if !strings.HasPrefix(r.URL.Path, intents) {
				return ""
			}
			switch {
			case r.Method == http.MethodGet:
				return lookup
			case strings.HasSuffix(r.URL.Path, "/confirm"):
				return charge
			case strings.HasSuffix(r.URL.Path, "/cancel"):
				return cancel
			}
			return ""
		},
	}
}

// proxies stand around one process: one before the database, and one before the PSP.
type proxies struct {
	rows  *pgproxy.Proxy
	calls *httpproxy.Proxy
}

func openProxies(parent string, who Process, c Config) (p proxies, err error) {
	if p.rows, err = pgproxy.OpenIn(parent, c.DatabaseURLs[who]); err != nil {
		return p, fmt.Errorf("stand before the database: %w", err)
	}
	// With a choice, the proxy does not remember each round: the demo may run for days.
	p.rows.Choose(func([]string) pgproxy.Action { return pgproxy.Pass })
	p.calls, err = httpproxy.Open(httpproxy.Options{
		Upstream: func() string { return c.PSPAddress }, Name: c.Dialect.name, Patience: c.PSPTimeout,
	})
	if err != nil {
		return p, errors.Join(fmt.Errorf("stand before the PSP: %w", err), p.rows.Close())
	}
	return p, nil
}

func (p proxies) close() error {
	p.calls.Close()
	return p.rows.Close()
}

// maxSocketPath is what every system accepts as the path of a socket.
const maxSocketPath = 103

// socketParent is dir, without what a killed demo has left there; or the system's folder for temporary files, if a
// socket's path in dir would be too long.
func socketParent(dir string) (string, error) {
	left, err := filepath.Glob(filepath.Join(dir, "pgproxy-*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if len(filepath.Join(dir, "pgproxy-0123456789", ".s.PGSQL.5432")) > maxSocketPath {
		dir = ""
	}
	return dir, err
}
