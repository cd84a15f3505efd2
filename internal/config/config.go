// Package config owns the settings: environment variables with defaults, checked against each other before anything
// starts. It knows what a setting means to the others only through the relations in Check.
package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"
)

// API are the settings of the API process. Every span of time is written as Go does, such as 30s or 48h.
type API struct {
	DatabaseURL  string `env:"DATABASE_URL" desc:"PostgreSQL, as a URL or keyword string"`
	HTTPAddr     string `env:"HTTP_ADDR" envDefault:":8080" desc:"address of the public API"`
	OperatorAddr string `env:"OPERATOR_ADDR" envDefault:"127.0.0.1:8081" desc:"address of /livez, /readyz and /metrics"`
	PublicURL    string `env:"PUBLIC_URL" desc:"base of the URLs in answers; the same for all processes (default: from HTTP_ADDR)"`
	PSPURL       string `env:"PSP_URL" envDefault:"http://127.0.0.1:8082" desc:"the payment service provider"`
	PSPSecret    string `env:"PSP_SECRET" desc:"our secret at the PSP; required to serve"`
	LogLevel     string `env:"LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error"`

	Lease     time.Duration `env:"LEASE" envDefault:"30s" desc:"exclusive right to execute a key"`
	Retention time.Duration `env:"KEY_RETENTION" envDefault:"48h" desc:"how long a key is kept"`
	PSPMemory time.Duration `env:"PSP_KEY_MEMORY" envDefault:"24h" desc:"how long the PSP knows a key again"`

	PSPDial            time.Duration `env:"PSP_DIAL_TIMEOUT" envDefault:"2s" desc:"longest time to connect to the PSP"`
	PSPTotal           time.Duration `env:"PSP_TIMEOUT" envDefault:"8s" desc:"longest time for a PSP request"`
	PSPInFlight        int           `env:"PSP_IN_FLIGHT" envDefault:"64" desc:"PSP requests at once"`
	PSPBreakerFailures uint32        `env:"PSP_BREAKER_FAILURES" envDefault:"20" desc:"failures in a row that open the breaker"`
	PSPBreakerOpen     time.Duration `env:"PSP_BREAKER_OPEN" envDefault:"5s" desc:"how long the breaker stays open"`

	DBMaxConns         int32         `env:"DB_MAX_CONNS" envDefault:"16" desc:"size of the database pool"`
	DBAcquire          time.Duration `env:"DB_ACQUIRE_TIMEOUT" envDefault:"1s" desc:"longest wait for a connection of the pool"`
	DBStatementTimeout time.Duration `env:"DB_STATEMENT_TIMEOUT" envDefault:"5s" desc:"longest statement"`
	DBLockTimeout      time.Duration `env:"DB_LOCK_TIMEOUT" envDefault:"2s" desc:"longest wait for a row lock"`

	DrainDelay time.Duration `env:"DRAIN_DELAY" envDefault:"0s" desc:"time between not ready and closing, for load balancers"`
	DrainLimit time.Duration `env:"DRAIN_LIMIT" envDefault:"35s" desc:"longest time for payments in flight to finish at shutdown"`
}

// Load reads the settings through getenv and checks them.
func Load(getenv func(string) string) (API, error) {
	var c API
	environment := map[string]string{}
	for _, s := range settings(reflect.TypeOf(c)) {
		if v := getenv(s.name); v != "" {
			environment[s.name] = v
		}
	}
	if err := env.ParseWithOptions(&c, env.Options{Environment: environment}); err != nil {
		return API{}, named(err, reflect.TypeOf(c), environment)
	}
	if c.PublicURL == "" {
		c.PublicURL = "http://" + localHost(c.HTTPAddr)
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	return c, c.Check()
}

// maxPSPTotal leaves time for both transactions within the server's write timeout.
const maxPSPTotal = 15 * time.Second

// Check names every setting, and every relation between two, that would make Payonce wrong rather than slow.
func (c API) Check() error {
	var bad []error
	refuse := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	for _, s := range []struct {
		name string
		is   time.Duration
	}{
		{"LEASE", c.Lease}, {"KEY_RETENTION", c.Retention}, {"PSP_KEY_MEMORY", c.PSPMemory},
		{"PSP_DIAL_TIMEOUT", c.PSPDial}, {"PSP_TIMEOUT", c.PSPTotal}, {"PSP_BREAKER_OPEN", c.PSPBreakerOpen},
		{"DB_ACQUIRE_TIMEOUT", c.DBAcquire}, {"DB_STATEMENT_TIMEOUT", c.DBStatementTimeout},
		{"DB_LOCK_TIMEOUT", c.DBLockTimeout}, {"DRAIN_LIMIT", c.DrainLimit},
	} {
		if s.is <= 0 {
			refuse("%s is %s, must be positive", s.name, s.is)
		}
	}
	// An owner sends within a third of its lease; the PSP has another third; the rest is for writing what came of it.
	if c.PSPTotal > c.Lease/3 {
		refuse("PSP_TIMEOUT (%s) times 3 must not exceed LEASE (%s): the lease would end while the PSP still works", c.PSPTotal, c.Lease)
	}
	if c.PSPTotal > maxPSPTotal {
		refuse("PSP_TIMEOUT (%s) must not exceed %s: the server ends a response after 30s", c.PSPTotal, maxPSPTotal)
	}
	if c.PSPDial > c.PSPTotal {
		refuse("PSP_DIAL_TIMEOUT (%s) must not exceed PSP_TIMEOUT (%s)", c.PSPDial, c.PSPTotal)
	}
	if c.Retention < c.PSPMemory {
		refuse("KEY_RETENTION (%s) must not be shorter than PSP_KEY_MEMORY (%s)", c.Retention, c.PSPMemory)
	}
	if c.Lease >= c.PSPMemory {
		refuse("LEASE (%s) must be shorter than PSP_KEY_MEMORY (%s)", c.Lease, c.PSPMemory)
	}
	if c.DBLockTimeout > c.DBStatementTimeout {
		refuse("DB_LOCK_TIMEOUT (%s) must not exceed DB_STATEMENT_TIMEOUT (%s)", c.DBLockTimeout, c.DBStatementTimeout)
	}
	if c.DrainDelay < 0 {
		refuse("DRAIN_DELAY is %s, must not be negative", c.DrainDelay)
	}
	if c.DrainLimit < c.Lease {
		refuse("DRAIN_LIMIT (%s) must not be shorter than LEASE (%s): a payment in flight could be cut off", c.DrainLimit, c.Lease)
	}
	if c.DBMaxConns < 2 || c.PSPInFlight < 1 || c.PSPBreakerFailures < 1 {
		refuse("DB_MAX_CONNS must be at least 2, PSP_IN_FLIGHT and PSP_BREAKER_FAILURES at least 1")
	}
	for name, addr := range map[string]string{"HTTP_ADDR": c.HTTPAddr, "OPERATOR_ADDR": c.OperatorAddr} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			refuse("%s is %q, must be host:port or :port, such as :8080", name, addr)
		}
	}
	for name, raw := range map[string]string{"PUBLIC_URL": c.PublicURL, "PSP_URL": c.PSPURL} {
		if u, err := url.Parse(raw); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			refuse("%s is %q, must be an http or https URL", name, raw)
		}
	}
	if _, err := c.Level(); err != nil {
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

// Level is the log level.
func (c API) Level() (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("LOG_LEVEL is %q, must be debug, info, warn or error", c.LogLevel)
	}
	return l, nil
}

// Describe writes the settings of a struct as a table for --help: with the defaults given, or else its own.
func Describe(w io.Writer, settingsOf any, defaults map[string]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range settings(reflect.TypeOf(settingsOf)) {
		if d, ok := defaults[s.name]; ok {
			s.fallback = d
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", s.name, s.fallback, s.desc)
	}
	return tw.Flush()
}

type setting struct{ name, fallback, desc string }

func settings(t reflect.Type) []setting {
	var all []setting
	for i := range t.NumField() {
		if tag := t.Field(i).Tag; tag.Get("env") != "" {
			all = append(all, setting{tag.Get("env"), tag.Get("envDefault"), tag.Get("desc")})
		}
	}
	return all
}

// localHost is how this machine reaches addr.
func localHost(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified() && !ip.IsLoopback()) {
		return addr
	}
	return net.JoinHostPort("localhost", port)
}
