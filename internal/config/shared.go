package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"reflect"
	"time"
)

// Shared are the settings that the API and the reconciler must have alike: both write what the other reads.
type Shared struct {
	DatabaseURL string `env:"DATABASE_URL" desc:"PostgreSQL, as a URL or keyword string; of several hosts, the primary is found"`
	PublicURL   string `env:"PUBLIC_URL" desc:"base of the URLs in answers, with the path that a proxy takes away, if one does; the same for all processes (default: from HTTP_ADDR)"`
	PSPURL      string `env:"PSP_URL" envDefault:"http://127.0.0.1:8082" desc:"the payment service provider"`
	PSPSecret   string `env:"PSP_SECRET" desc:"our secret at the PSP; required to serve, unless PSP is stripe"`
	// PSP is the provider of new tenants that name none.
	PSP          string `env:"PSP" envDefault:"native" desc:"provider of new tenants that name none: native (PSP_URL) or stripe"`
	StripeURL    string `env:"STRIPE_URL" envDefault:"https://api.stripe.com" desc:"the API of Stripe"`
	StripeSecret string `env:"STRIPE_SECRET" desc:"our secret key at Stripe (sk_live_…, sk_test_…) or a restricted one (rk_live_…, rk_test_…); required to serve if PSP is stripe; none: no Stripe"`
	// ConsoleSecret seals sessions. Processes behind one address must have the same.
	ConsoleSecret string     `env:"CONSOLE_SECRET" desc:"seals the sessions of the console, at least 32 characters; the same for all processes; none: sessions end with their process"`
	LogLevel      slog.Level `env:"LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error"`

	HTTPIdle time.Duration `env:"HTTP_IDLE_TIMEOUT" envDefault:"620s" desc:"how long an idle HTTP connection is kept, at most 2h; longer than the load balancer keeps it (AWS 60s, Google 600s): it would send on a connection that was just closed, and answer 502"`

	Lease       time.Duration `env:"LEASE" envDefault:"30s" desc:"exclusive right to execute a key"`
	Retention   time.Duration `env:"KEY_RETENTION" envDefault:"48h" desc:"how long a key is kept"`
	Audit       time.Duration `env:"KEY_AUDIT" zero:"none" envDefault:"720h" desc:"how long an expired key is kept before it is deleted"`
	PSPMemory   time.Duration `env:"PSP_KEY_MEMORY" envDefault:"24h" desc:"how long the PSP recognises a key"`
	PSPLate     time.Duration `env:"PSP_LATE_LIMIT" envDefault:"60s" desc:"how late the PSP may still execute; with LEASE, the grace period"`
	FirstLookup time.Duration `env:"FIRST_LOOKUP" zero:"none" envDefault:"10s" desc:"how long a lost outcome waits for a webhook before the PSP is asked"`

	PSPTotal           time.Duration `env:"PSP_TIMEOUT" envDefault:"8s" desc:"longest time for a PSP request"`
	PSPInFlight        int           `env:"PSP_IN_FLIGHT" envDefault:"64" desc:"PSP requests at once; one account holds at most half of what is free: a third, where it is alone"`
	PSPBreakerFailures uint32        `env:"PSP_BREAKER_FAILURES" envDefault:"20" desc:"failures in a row that open an account's breaker"`
	PSPBreakerOpen     time.Duration `env:"PSP_BREAKER_OPEN" envDefault:"5s" desc:"how long a breaker stays open"`

	DBMaxConns         int32         `env:"DB_MAX_CONNS" envDefault:"16" desc:"size of the database pool"`
	DBAcquire          time.Duration `env:"DB_ACQUIRE_TIMEOUT" envDefault:"1s" desc:"longest wait for a connection of the pool"`
	DBStatementTimeout time.Duration `env:"DB_STATEMENT_TIMEOUT" envDefault:"5s" desc:"longest statement"`
	DBCommitSlots      int           `env:"DB_COMMIT_SLOTS" envDefault:"2" desc:"group commits at once in this process, about one per core of the database; payments that find no free slot wait and form the next group; 0: every payment commits alone"`
	DBPooler           bool          `env:"DB_POOLER" envDefault:"false" desc:"true behind a pooler in transaction mode, such as PgBouncer; see docs/pooler.md"`

	EventsAllowHTTP     bool           `env:"EVENTS_ALLOW_HTTP" envDefault:"false" desc:"true: merchants may register http URLs for events, without TLS"`
	EventsAllowNetworks []netip.Prefix `env:"EVENTS_ALLOW_NETWORKS" desc:"networks that events may be sent to although the internet does not reach them, such as 10.1.0.0/16,fd00:1::/32; none: public addresses alone"`
	EventsProxy         string         `env:"EVENTS_PROXY" desc:"URL of the proxy that events are sent through; see docs/events.md for what it must refuse; none: events are sent directly"`

	TraceEndpoint string  `env:"OTEL_EXPORTER_OTLP_ENDPOINT" desc:"base URL of an OpenTelemetry collector, such as http://127.0.0.1:4318, for traces by OTLP/HTTP; none: no traces"`
	TraceRatio    float64 `env:"TRACE_RATIO" envDefault:"0.01" desc:"share of payments whose traces are recorded, above 0 and at most 1; the same for all processes"`

	// What follows from the settings above. Only tests choose otherwise.
	PSPDial       time.Duration // longest time to connect to the PSP
	DBLockTimeout time.Duration // longest wait for a row lock

	// Held is not a setting: how much longer a process of the demo waits for an answer, which may be held on its way.
	Held time.Duration
}

// derive fills in what follows from the settings.
func (c *Shared) derive() {
	c.PSPDial = min(maxPSPDial, c.PSPTotal/2)
	// Who waits for a lock must have time left for the statement. PostgreSQL takes 0 for no limit.
	c.DBLockTimeout = max(time.Millisecond, min(maxDBLockTimeout, c.DBStatementTimeout*2/5))
}

// Hold has a process of the demo wait for longer than its settings say.
func (c *Shared) Hold(longer time.Duration) {
	c.Held = longer
	c.PSPTotal += longer
	c.DBStatementTimeout += longer // The locks keep their limit.
}

// GracePeriod is how long after a key became unknown a lookup that finds nothing becomes proof: an owner may send until
// its lease is over, and the PSP may be late.
func (c Shared) GracePeriod() time.Duration { return c.Lease + c.PSPLate }

// minConsoleSecret is the length of 16 random bytes in hexadecimal.
const minConsoleSecret = 32

// maxPSPTotal leaves time for both transactions within the server's write timeout.
const maxPSPTotal = 15 * time.Second

// maxPSPDial is enough for a handshake across the world, with one packet lost.
const maxPSPDial = 2 * time.Second

// maxHTTPIdle is longer than balancers can be told to keep an idle connection: AWS's at most 4000 s.
const maxHTTPIdle = 2 * time.Hour

// maxDBLockTimeout is shorter than the margins of a lease (ADR 0029), and a request that waits holds a connection.
const maxDBLockTimeout = 2 * time.Second

// refusals collects what is wrong with settings.
type refusals []error

func (r *refusals) refuse(format string, args ...any) { *r = append(*r, fmt.Errorf(format, args...)) }

// spans refuses spans of time that are not positive. By the tag zero, 0 is taken, too, and stands for none.
func (r *refusals) spans(settings any) {
	v := reflect.ValueOf(settings)
	for _, field := range reflect.VisibleFields(v.Type()) {
		span, ok := v.FieldByIndex(field.Index).Interface().(time.Duration)
		name, zero := field.Tag.Get("env"), field.Tag.Get("zero")
		switch {
		case !ok || name == "":
		case zero == "" && span <= 0:
			r.refuse("%s is %s, must be positive", name, span)
		case span < 0:
			r.refuse("%s is %s, must not be negative", name, span)
		}
	}
}

func (r *refusals) add(err error) {
	if err != nil {
		*r = append(*r, err)
	}
}

// check names every setting, and every relation between two, that would make Payonce wrong rather than slow.
func (c Shared) check(bad *refusals) {
	// An owner sends within a third of its lease; the PSP has another third; the rest is for writing what came of it.
	if c.PSPTotal > c.Lease/3 {
		bad.refuse("PSP_TIMEOUT (%s) times 3 must not exceed LEASE (%s): the lease would end while the PSP still works",
			c.PSPTotal, c.Lease)
	}
	if c.PSPTotal > maxPSPTotal {
		bad.refuse("PSP_TIMEOUT (%s) must not exceed %s: the server ends a response after 30s", c.PSPTotal, maxPSPTotal)
	}
	if c.HTTPIdle > maxHTTPIdle {
		bad.refuse("HTTP_IDLE_TIMEOUT (%s) must not exceed %s", c.HTTPIdle, maxHTTPIdle)
	}
	if c.Retention < c.PSPMemory {
		bad.refuse("KEY_RETENTION (%s) must not be shorter than PSP_KEY_MEMORY (%s)", c.Retention, c.PSPMemory)
	}
	// Later, a lookup that finds nothing proves nothing.
	if c.GracePeriod()+c.FirstLookup >= c.PSPMemory {
		bad.refuse("LEASE (%s), PSP_LATE_LIMIT (%s) and FIRST_LOOKUP (%s) together must be shorter than PSP_KEY_MEMORY (%s)",
			c.Lease, c.PSPLate, c.FirstLookup, c.PSPMemory)
	}
	if n := len(c.ConsoleSecret); n > 0 && n < minConsoleSecret {
		bad.refuse("CONSOLE_SECRET has %d characters, must have at least %d", n, minConsoleSecret)
	}
	if c.DBMaxConns < 2 || c.PSPInFlight < 1 || c.PSPBreakerFailures < 1 {
		bad.refuse("DB_MAX_CONNS must be at least 2, PSP_IN_FLIGHT and PSP_BREAKER_FAILURES at least 1")
	}
	if c.DBCommitSlots < 0 {
		bad.refuse("DB_COMMIT_SLOTS is %d, must not be negative", c.DBCommitSlots)
	}
	if !(c.TraceRatio > 0 && c.TraceRatio <= 1) { // also what is not a number
		bad.refuse("TRACE_RATIO is %v, must be above 0 and at most 1; for no traces, leave OTEL_EXPORTER_OTLP_ENDPOINT empty",
			c.TraceRatio)
	}
	c.checkProviders(bad)
	bad.add(checkPublic(c.PublicURL))
	bad.add(checkBase("PSP_URL", c.PSPURL))
	bad.add(checkBase("STRIPE_URL", c.StripeURL))
	if u, err := url.Parse(c.EventsProxy); c.EventsProxy != "" &&
		(err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
		bad.refuse("EVENTS_PROXY must be an http or https URL, such as http://proxy.example:3128") // It may have a password.
	}
	if c.TraceEndpoint != "" {
		bad.add(checkBase("OTEL_EXPORTER_OTLP_ENDPOINT", c.TraceEndpoint))
	}
}
