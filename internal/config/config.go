// Package config owns the settings: environment variables with defaults, checked against each other before anything
// starts. It knows what a setting means to the others only through the relations in Check.
package config

import (
	"cmp"
	"errors"
	"time"
)

// API are the settings of the API process. Every span of time is written as Go does, such as 30s or 48h.
type API struct {
	Shared

	HTTPAddr             string   `env:"HTTP_ADDR" envDefault:":8080" desc:"address of the public API"`
	OperatorAddr         string   `env:"OPERATOR_ADDR" envDefault:"127.0.0.1:8081" desc:"address of the operator API, /livez, /readyz and /metrics"`
	WebhookSecrets       []string `env:"WEBHOOK_SECRETS" desc:"whsec_… secrets that the PSP signs webhooks with, the old one too while it rotates; none: no webhooks"`
	StripeWebhookSecrets []string `env:"STRIPE_WEBHOOK_SECRETS" desc:"whsec_… secrets that Stripe signs webhooks with, the old one too while it rotates; none: no webhooks of Stripe's"`

	InFlightWait time.Duration `env:"IN_FLIGHT_WAIT" zero:"none" envDefault:"2s" desc:"how long a request waits for the first one with its key, and is then answered 409; Prefer: wait=N chooses otherwise; 0: the 409 comes at once"`

	DrainDelay time.Duration `env:"DRAIN_DELAY" zero:"none" envDefault:"0s" desc:"time between not ready and closing, for load balancers"`

	// DrainLimit follows from LEASE: the longest time for payments in flight to finish at shutdown.
	DrainLimit time.Duration

	// PSPPage is not a setting: the demo knows that its PSP has a page for people, and that a browser reaches it. The
	// start page leads there.
	PSPPage string
	// DemoPage is not one either: the demo has a page beside the console, and the console links it.
	DemoPage string
	// Notice says at the top of the demo's pages that a bug is planted in it.
	Notice string
	// EventsFile is where the demo stores what has happened to its processes, for the pictures of keys.
	EventsFile string
}

// Load reads the settings of the API through getenv and checks them.
func Load(getenv func(string) string) (API, error) {
	var c API
	if err := Parse(&c, getenv); err != nil {
		return API{}, err
	}
	if err := c.publicURLFrom(c.HTTPAddr); err != nil {
		return API{}, err
	}
	c.derive()
	// An owner has until the end of its lease, and then its client is answered.
	c.DrainLimit = c.Lease + drainMargin
	return c, c.Check()
}

// LocalURL is how this machine reaches the public API.
func (c API) LocalURL() string { return LocalURL(c.HTTPAddr) }

// OperatorURL is how this machine reaches the operator's listener. It has no host but localhost, since public pages
// show it.
func (c API) OperatorURL() string { return ownURL(c.OperatorAddr) }

// Check names every setting, and every relation between two, that would make Payonce wrong rather than slow.
func (c API) Check() error {
	var bad refusals
	c.check(&bad)
	c.checkWebhooks(&bad)
	bad.spans(c)
	// A request that has waited may be the next one to execute its key.
	if c.InFlightWait > maxAnswer-c.PSPTotal {
		bad.refuse("IN_FLIGHT_WAIT (%s) and PSP_TIMEOUT (%s) together must not exceed %s: the server ends a response after 30s",
			c.InFlightWait, c.PSPTotal, maxAnswer)
	}
	// The end of a lease ends each wait for its execution. A shutdown waits a little longer than a lease.
	if c.InFlightWait > c.DrainLimit {
		bad.refuse("IN_FLIGHT_WAIT (%s) must not exceed LEASE plus 5s (%s), the time that a shutdown gives to requests in flight",
			c.InFlightWait, c.DrainLimit)
	}
	bad.add(CheckAddress("HTTP_ADDR", c.HTTPAddr))
	bad.add(CheckAddress("OPERATOR_ADDR", c.OperatorAddr))
	return errors.Join(bad...)
}

// Reconciler are the settings of the reconciler process.
type Reconciler struct {
	Shared

	Addr string `env:"RECONCILER_ADDR" envDefault:"127.0.0.1:8083" desc:"address of the reconciler's /livez, /readyz and /metrics"`

	SweepEvery time.Duration `env:"SWEEP_EVERY" envDefault:"5s" desc:"how often leases that are over are looked for"`
	ClaimEvery time.Duration `env:"CLAIM_EVERY" envDefault:"1s" desc:"how often unknown keys are looked for that are due"`
	ScanEvery  time.Duration `env:"SCAN_EVERY" envDefault:"60s" desc:"how often the PSP's ledger is compared with ours"`
	PruneEvery time.Duration `env:"PRUNE_EVERY" envDefault:"10s" desc:"how often keys are expired and deleted"`
	PruneRate  int32         `env:"PRUNE_RATE" envDefault:"5000" desc:"keys per second that are expired, and as many that are deleted, at most"`

	ScanOverlap time.Duration `env:"SCAN_OVERLAP" envDefault:"10m" desc:"how much of the PSP's ledger is read again by each scan"`

	LookupBudget  int32         `env:"LOOKUP_BUDGET" envDefault:"12" desc:"lookups in a row that the PSP may leave unanswered; then it is an operator's case"`
	LookupBase    time.Duration `env:"LOOKUP_BASE" envDefault:"5s" desc:"wait after the first lookup without an answer; each further one doubles it"`
	LookupCap     time.Duration `env:"LOOKUP_CAP" envDefault:"10m" desc:"longest wait between two lookups"`
	LookupRecheck time.Duration `env:"LOOKUP_RECHECK" envDefault:"1h" desc:"wait between lookups of a key that an operator has"`

	EventsDispatchEvery time.Duration `env:"EVENTS_DISPATCH_EVERY" envDefault:"500ms" desc:"how often new events, and deliveries that are due, are looked for"`
	EventsWorkers       int           `env:"EVENTS_WORKERS" envDefault:"100" desc:"endpoints that events are delivered to at once, and as many more whose last delivery has failed"`
	EventsTimeout       time.Duration `env:"EVENTS_TIMEOUT" envDefault:"10s" desc:"longest time for the answer to an event, at most 30s"`
	EventsGiveUp        time.Duration `env:"EVENTS_GIVE_UP" envDefault:"72h" desc:"how long a delivery is tried; an endpoint that has failed for so long is disabled"`
	EventsRetention     time.Duration `env:"EVENTS_RETENTION" envDefault:"720h" desc:"how long events and their deliveries are kept, also those that wait at a disabled endpoint"`

	// What follows from PSP_IN_FLIGHT and PSP_TIMEOUT. Only tests choose otherwise.
	ResolveWorkers int           // lookups at once
	StopLimit      time.Duration // longest time for running jobs to finish at shutdown

	// ConsoleURL is not a setting: the demo knows where a browser finds the console, which an API process has.
	ConsoleURL string
}

// maxAnswer leaves time for the answer within the server's write timeout, when a request has waited and was executed.
const maxAnswer = 25 * time.Second

const (
	drainMargin = 5 * time.Second
	stopMargin  = 4 * time.Second
	// maxStopLimit and the time to cancel jobs fit into the stop_grace_period of compose.yaml.
	maxStopLimit = 20 * time.Second
	// ledgerReaders is how many jobs read ledgers at once.
	ledgerReaders = 6
	maxWorkers    = 10_000 // River has no more for a queue
	// maxEventsTimeout bounds how long an endpoint that hangs holds a worker.
	maxEventsTimeout = 30 * time.Second
)

// LoadReconciler reads the settings of the reconciler through getenv and checks them.
func LoadReconciler(getenv func(string) string) (Reconciler, error) {
	var c Reconciler
	if err := Parse(&c, getenv); err != nil {
		return Reconciler{}, err
	}
	// As the API does in the same environment: a decline that is resolved late must read like a live one.
	if err := c.publicURLFrom(cmp.Or(getenv("HTTP_ADDR"), ":8080")); err != nil {
		return Reconciler{}, err
	}
	c.derive()
	// More lookups would be turned away by our own limit. One account has a share of it alone, and its further lookups
	// wait.
	c.ResolveWorkers = min(c.PSPInFlight-ledgerReaders, maxWorkers)
	// As a rule, a job asks the PSP once or twice, and writes what it has heard. What is cut off is done again.
	c.StopLimit = min(2*c.PSPTotal+stopMargin, maxStopLimit)
	return c, c.Check()
}

// LocalURL is how this machine reaches the reconciler's listener.
func (c Reconciler) LocalURL() string { return ownURL(c.Addr) }

// Check names every setting, and every relation between two, that would make the reconciler wrong rather than slow.
func (c Reconciler) Check() error {
	var bad refusals
	c.check(&bad)
	bad.spans(c)
	// What a scan leaves alone, since an owner or a lookup is at work on it, must come by again after they should be
	// done.
	if needed := c.Lease + c.GracePeriod() + c.ScanEvery; c.ScanOverlap < needed {
		bad.refuse("SCAN_OVERLAP (%s) must be at least twice LEASE plus PSP_LATE_LIMIT plus SCAN_EVERY (%s): a movement could slip through", c.ScanOverlap, needed)
	}
	if c.PruneRate < 1 {
		bad.refuse("PRUNE_RATE is %d, must be at least 1", c.PruneRate)
	}
	if c.LookupCap < c.LookupBase {
		bad.refuse("LOOKUP_CAP (%s) must not be shorter than LOOKUP_BASE (%s)", c.LookupCap, c.LookupBase)
	}
	if c.LookupCap+c.GracePeriod() >= c.PSPMemory {
		bad.refuse("LOOKUP_CAP (%s) and the grace period (%s) together must be shorter than PSP_KEY_MEMORY (%s)",
			c.LookupCap, c.GracePeriod(), c.PSPMemory)
	}
	if c.ResolveWorkers < 1 {
		bad.refuse("PSP_IN_FLIGHT is %d, must be at least %d for the reconciler: %d of them read ledgers", c.PSPInFlight,
			ledgerReaders+1, ledgerReaders)
	}
	if c.LookupBudget < 1 {
		bad.refuse("LOOKUP_BUDGET is %d, must be at least 1", c.LookupBudget)
	}
	if c.EventsWorkers < 1 || c.EventsWorkers > maxWorkers {
		bad.refuse("EVENTS_WORKERS is %d, must be at least 1 and at most %d", c.EventsWorkers, maxWorkers)
	}
	if c.EventsTimeout > maxEventsTimeout {
		bad.refuse("EVENTS_TIMEOUT (%s) must not exceed %s", c.EventsTimeout, maxEventsTimeout)
	}
	if c.EventsRetention < c.EventsGiveUp {
		bad.refuse("EVENTS_RETENTION (%s) must not be shorter than EVENTS_GIVE_UP (%s): events would go before they are given up",
			c.EventsRetention, c.EventsGiveUp)
	}
	bad.add(CheckAddress("RECONCILER_ADDR", c.Addr))
	return errors.Join(bad...)
}
