package supervisor

import (
	"crypto/rand"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"payonce/demo/mockpsp"
	"payonce/demo/mockpsp/stripe"
	"payonce/demo/windows"
	"payonce/internal/config"
	"payonce/internal/tenants"
)

// demoOnly are the settings that the API process does not have.
type demoOnly struct {
	DataDir     string `env:"DEMO_DATA_DIR" envDefault:".demo" desc:"folder of the database and of the PSP's ledger; remove the folder to start with empty data; the default is .demo-stripe if PSP is stripe"`
	MockPSPAddr string `env:"MOCKPSP_ADDR" envDefault:"127.0.0.1:8082" desc:"address of the mock PSP"`
	StripeAddr  string `env:"MOCKPSP_STRIPE_ADDR" envDefault:"127.0.0.1:8085" desc:"address on which the mock PSP speaks Stripe's dialect, if PSP is stripe"`

	Short        bool   `env:"SHORT" envDefault:"false" desc:"1: keys expire after 40 s, and are deleted 20 s later, to watch what is otherwise a matter of days"`
	NaiveProgram string `env:"NAIVE_PROGRAM" desc:"the program of course/steps/01, a server that charges twice, for the comparison; the default is the file naive in the folder of this program, if it is there"`
	NaiveAddr    string `env:"NAIVE_ADDR" envDefault:"127.0.0.1:8084" desc:"address of that server; it listens on 127.0.0.1 whatever the host"`
}

// demoDefaults differ from those of the processes. Times are shorter, so that every path of the demo ends within a
// minute. The API keys are well known, so it listens on loopback. Faults are sent by hand here, and a row of them
// should not open the breaker.
func demoDefaults() map[string]string {
	return map[string]string{
		"HTTP_ADDR": "127.0.0.1:8080", "LEASE": "15s", "PSP_TIMEOUT": "5s", "LOG_LEVEL": "warn",
		"PSP_SECRET": "demo-psp-secret", "PSP_URL": "(the mock PSP)", "PSP_BREAKER_FAILURES": "100",
		"WEBHOOK_SECRETS": mockpsp.DemoWebhookSecret,
		"STRIPE_URL":      "(the mock PSP)", "STRIPE_SECRET": stripe.DemoSecret,
		"STRIPE_WEBHOOK_SECRETS": stripe.DemoWebhookSecret,
		// A session in the browser outlives the processes and the demo. The key sealed in it is well known, too.
		"CONSOLE_SECRET": "demo-console-secret-that-all-know",
		// A lost outcome waits 5 s for its webhook, then it is looked up; 25 s after it was lost, "not found" is
		// believed.
		"FIRST_LOOKUP": "5s", "PSP_LATE_LIMIT": "10s", "SWEEP_EVERY": "1s", "CLAIM_EVERY": "1s",
		"LOOKUP_BUDGET": "4", "LOOKUP_BASE": "1s", "LOOKUP_CAP": "5s", "LOOKUP_RECHECK": "30s",
		"SCAN_EVERY": "10s", "SCAN_OVERLAP": "2m", "PRUNE_EVERY": "10s",
		// A receiver of events is a server on this machine.
		"EVENTS_ALLOW_HTTP": "true", "EVENTS_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
		"EVENTS_DISPATCH_EVERY": "250ms",
	}
}

// shortDefaults, with SHORT, take the place of some of the others. A key must live at least as long as the PSP knows
// it, and the PSP must know it for longer than the grace period and a lookup take.
func shortDefaults() map[string]string {
	return map[string]string{
		"KEY_RETENTION": "40s", "PSP_KEY_MEMORY": "40s", "KEY_AUDIT": "20s", "PRUNE_EVERY": "1s",
	}
}

// settings are those of the two processes and of the demo, read and checked.
type settings struct {
	api        config.API
	reconciler config.Reconciler
	own        demoOnly
	getenv     func(string) string // with the demo's defaults
}

// load reads the settings, with the demo's own defaults under them.
func load(getenv func(string) string) (settings, error) {
	defaults := demoDefaults()
	delete(defaults, "PSP_URL") // known once the mock PSP listens
	delete(defaults, "STRIPE_URL")
	var s settings
	ownErr := config.Parse(&s.own, getenv)
	if s.own.NaiveProgram == "" {
		s.own.NaiveProgram = naiveProgram()
	}
	if getenv("PSP") == config.StripePSP && getenv("DEMO_DATA_DIR") == "" {
		s.own.DataDir += "-stripe" // A tenant never changes its provider, so the data are others.
	}
	getenv = withoutOwn(getenv, s.own.DataDir)
	if s.own.Short {
		maps.Copy(defaults, shortDefaults())
	}
	if getenv("DATABASE_URL") != "" { // Operators may have keys of their own there.
		defaults["CONSOLE_SECRET"] = rand.Text() + rand.Text()
	}
	if getenv("PSP") == config.StripePSP {
		defaults["PSP_TIMEOUT"] = "4s" // A payment that is cancelled then is free again within five seconds.
	}
	s.getenv = func(name string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return defaults[name]
	}
	var err, reconcilerErr error
	s.api, err = config.Load(s.getenv)
	s.reconciler, reconcilerErr = config.LoadReconciler(s.getenv)
	if err == nil {
		err = reconcilerErr // what is shared would be said twice
	}
	return s, errors.Join(err, ownErr, config.CheckAddress("MOCKPSP_ADDR", s.own.MockPSPAddr),
		config.CheckAddress("MOCKPSP_STRIPE_ADDR", s.own.StripeAddr),
		config.CheckAddress("NAIVE_ADDR", s.own.NaiveAddr))
}

// stripe reports whether the tenants of the demo are at Stripe, that is, at the mock PSP in Stripe's dialect.
func (s settings) stripe() bool { return s.api.PSP == config.StripePSP }

// found has the addresses that are known once everything listens.
func (s settings) found(at *listeners, d *database) settings {
	s.api.DatabaseURL, s.api.PSPURL = d.api, "http://"+at.psp.Addr().String()
	s.api.StripeURL = "http://" + at.spoken().Addr().String()
	s.api.EventsFile = filepath.Join(d.dir, "events.json")
	s.reconciler.Shared = s.api.Shared // the same PSP and URLs
	s.reconciler.DatabaseURL = d.reconciler
	return s
}

// provider is where the tenants of the demo are.
func (s settings) provider() tenants.PSP { return tenants.PSP(s.api.PSP) }

// longestHold is time enough to read what is held, and to choose.
const longestHold = time.Minute

// hold is how long a payment is held at a crash window.
func (s settings) hold() time.Duration { return holdOf(s.getenv, longestHold) }

// holdOf is the hold that the environment says; or the usual one.
func holdOf(getenv func(string) string, usual time.Duration) time.Duration {
	if said, err := time.ParseDuration(getenv(holdSetting)); err == nil {
		return said
	}
	return usual
}

// dialect is what the proxies must know of the provider.
func (s settings) dialect() windows.Dialect {
	if s.stripe() {
		return windows.Stripe()
	}
	return windows.Native()
}

// environment gives a child all settings that the two processes have, with what the demo has found out in place of
// what was set. A new setting of a process needs nothing here.
func (s settings) environment(found map[string]string) []string {
	all := config.Environment(func(name string) string {
		if v, ok := found[name]; ok {
			return v
		}
		return s.getenv(name)
	}, config.API{}, config.Reconciler{})
	return append(all, pspPageSetting+"="+found[pspPageSetting], demoPageSetting+"="+found[demoPageSetting],
		noticeSetting+"="+s.notice(), eventsSetting+"="+s.api.EventsFile,
		consoleSetting+"="+config.LocalURL(s.api.OperatorAddr))
}

// planted is the name of the bug that this program was built with, and what the bug is. The linker sets it, for make
// break; so a program with a bug always says so.
var planted string //nolint:gochecknoglobals // the linker sets variables of a package, and nothing else

// notice says what is wrong with this demo on purpose, or is empty.
func (s settings) notice() string {
	if name, bug, ok := strings.Cut(planted, ": "); ok {
		return "A bug is planted in this demo, " + name + ": " + bug
	}
	return ""
}
