package config

import (
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/demo/mockpsp"
)

func load(env map[string]string) (API, error) {
	return Load(func(name string) string { return env[name] })
}

func defaults(t *testing.T) API {
	t.Helper()
	c, err := load(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaultsAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	shared := Shared{
		PublicURL: "http://localhost:8080", PSPURL: "http://127.0.0.1:8082", PSP: "native",
		StripeURL: "https://api.stripe.com",
		HTTPIdle:  620 * time.Second, // Google's balancer keeps a connection for 600 s, AWS's for 60 s.
		Lease:     30 * time.Second, Retention: 48 * time.Hour, Audit: 30 * 24 * time.Hour,
		PSPMemory: 24 * time.Hour,
		PSPLate:   time.Minute, FirstLookup: 10 * time.Second,
		PSPDial: 2 * time.Second, PSPTotal: 8 * time.Second, PSPInFlight: 64, PSPBreakerFailures: 20,
		PSPBreakerOpen: 5 * time.Second,
		DBMaxConns:     16, DBCommitSlots: 2, DBAcquire: time.Second, DBStatementTimeout: 5 * time.Second,
		DBLockTimeout: 2 * time.Second, TraceRatio: 0.01,
	}
	want := API{Shared: shared, HTTPAddr: ":8080", OperatorAddr: "127.0.0.1:8081",
		InFlightWait: 2 * time.Second, DrainLimit: 35 * time.Second}
	if diff := cmp.Diff(want, defaults(t)); diff != "" {
		t.Fatalf("defaults differ (-want +got):\n%s", diff)
	}
	reconciler, err := LoadReconciler(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Reconciler{
		Shared: shared, Addr: "127.0.0.1:8083", SweepEvery: 5 * time.Second, ClaimEvery: time.Second,
		ScanEvery:  time.Minute,
		PruneEvery: 10 * time.Second, PruneRate: 5000, ScanOverlap: 10 * time.Minute,
		LookupBudget: 12, LookupBase: 5 * time.Second,
		LookupCap: 10 * time.Minute, LookupRecheck: time.Hour, ResolveWorkers: 58,
		EventsDispatchEvery: 500 * time.Millisecond, EventsWorkers: 100, EventsTimeout: 10 * time.Second,
		EventsGiveUp: 72 * time.Hour, EventsRetention: 30 * 24 * time.Hour,
		StopLimit: 20 * time.Second,
	}, reconciler); diff != "" {
		t.Fatalf("defaults differ (-want +got):\n%s", diff)
	}
}

// What follows from other settings stays within what others take for granted.
func TestDerivedLimitsAreBounded(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DB_STATEMENT_TIMEOUT": "60s", "PSP_TIMEOUT": "15s", "LEASE": "45s",
		"PSP_IN_FLIGHT": "20000"}
	c, err := LoadReconciler(func(name string) string { return env[name] })
	if err != nil || c.DBLockTimeout != 2*time.Second || c.PSPDial != 2*time.Second ||
		c.StopLimit != 20*time.Second || c.ResolveWorkers != 10_000 {
		t.Errorf("%+v, %v", c, err)
	}
	env = map[string]string{"DB_STATEMENT_TIMEOUT": "1ms", "PSP_TIMEOUT": "1s"}
	c, err = LoadReconciler(func(name string) string { return env[name] })
	if err != nil || c.DBLockTimeout != time.Millisecond || c.PSPDial != 500*time.Millisecond ||
		c.StopLimit != 6*time.Second {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestEverySettingIsReadFromItsVariable(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"DATABASE_URL": "postgres://x", "HTTP_ADDR": "a:1", "OPERATOR_ADDR": "b:2",
		"PUBLIC_URL": "https://pay.example/", "PSP_URL": "https://psp.example",
		"PSP": "stripe", "STRIPE_URL": "https://stripe.example", "STRIPE_SECRET": "sk_test_1",
		"STRIPE_WEBHOOK_SECRETS": "whsec_cccccccccccccccc,whsec_dddddddddddddddd",
		"PSP_SECRET":             "s",
		"HTTP_IDLE_TIMEOUT":      "13s",
		"LOG_LEVEL":              "debug", "LEASE": "60s", "KEY_RETENTION": "99h", "PSP_KEY_MEMORY": "98h",
		"PSP_TIMEOUT":   "9s",
		"PSP_IN_FLIGHT": "5", "PSP_BREAKER_FAILURES": "6", "PSP_BREAKER_OPEN": "7s", "DB_MAX_CONNS": "8",
		"DB_COMMIT_SLOTS": "9", "DB_ACQUIRE_TIMEOUT": "9s",
		"DB_STATEMENT_TIMEOUT": "11s", "DRAIN_DELAY": "12s", "IN_FLIGHT_WAIT": "3s",
		"KEY_AUDIT": "1h", "PSP_LATE_LIMIT": "61s", "FIRST_LOOKUP": "62s", "DB_POOLER": "true",
		"WEBHOOK_SECRETS": "whsec_a,whsec_b", "CONSOLE_SECRET": "0123456789abcdef0123456789abcdef",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "TRACE_RATIO": "0.5",
		"EVENTS_ALLOW_HTTP": "true", "EVENTS_ALLOW_NETWORKS": "10.1.0.0/16,fd00:1::/32",
		"EVENTS_PROXY": "http://user:secret@proxy.example:3128",
	}
	want := API{
		Shared: Shared{
			DatabaseURL: "postgres://x", PublicURL: "https://pay.example", PSPURL: "https://psp.example",
			PSP: "stripe", StripeURL: "https://stripe.example", StripeSecret: "sk_test_1",
			ConsoleSecret: "0123456789abcdef0123456789abcdef",
			HTTPIdle:      13 * time.Second,
			PSPSecret:     "s", LogLevel: slog.LevelDebug, Lease: time.Minute, Retention: 99 * time.Hour,
			Audit: time.Hour, PSPMemory: 98 * time.Hour,
			PSPLate: 61 * time.Second, FirstLookup: 62 * time.Second, PSPDial: 2 * time.Second,
			PSPTotal:    9 * time.Second,
			PSPInFlight: 5, PSPBreakerFailures: 6, PSPBreakerOpen: 7 * time.Second, DBMaxConns: 8, DBCommitSlots: 9,
			DBAcquire:          9 * time.Second,
			DBStatementTimeout: 11 * time.Second, DBLockTimeout: 2 * time.Second, DBPooler: true,
			TraceEndpoint: "http://collector:4318", TraceRatio: 0.5, EventsAllowHTTP: true,
			EventsAllowNetworks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"),
				netip.MustParsePrefix("fd00:1::/32")},
			EventsProxy: "http://user:secret@proxy.example:3128",
		},
		HTTPAddr: "a:1", OperatorAddr: "b:2", WebhookSecrets: []string{"whsec_a", "whsec_b"},
		StripeWebhookSecrets: []string{"whsec_cccccccccccccccc", "whsec_dddddddddddddddd"},
		InFlightWait:         3 * time.Second,
		DrainDelay:           12 * time.Second, DrainLimit: 65 * time.Second,
	}
	got, err := load(env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Fatalf("settings differ (-want +got):\n%s", diff)
	}
	if n := len(settings(reflect.TypeFor[API]())); len(env) != n {
		t.Fatalf("%d variables for %d settings", len(env), n)
	}
}

// Each row breaks what it names, and nothing else unless it cannot be helped.
func TestEachRelationIsChecked(t *testing.T) {
	t.Parallel()
	const (
		thrice   = "PSP_TIMEOUT (8s) times 3 must not exceed LEASE (0s): the lease would end while the PSP still works"
		stripe   = "STRIPE_SECRET must be a secret key or a restricted key of Stripe's: sk_live_…, rk_live_…, sk_test_… or rk_test_…"
		counts   = "DB_MAX_CONNS must be at least 2, PSP_IN_FLIGHT and PSP_BREAKER_FAILURES at least 1"
		maxNanos = time.Duration(1<<63 - 1)

		publicPath = `the path of PUBLIC_URL must have neither an empty part nor "." nor "..", and its characters must be ` +
			"escaped where a URL asks for it: the paths in answers begin with it"
		ratio = "TRACE_RATIO is %s, must be above 0 and at most 1; for no traces, leave OTEL_EXPORTER_OTLP_ENDPOINT empty"
	)
	for name, row := range map[string]struct {
		edit func(*API)
		want []string
	}{
		"lease": {func(c *API) { c.Lease = 0 }, []string{"LEASE is 0s, must be positive", thrice}},
		"retention": {func(c *API) { c.Retention = 0 },
			[]string{"KEY_RETENTION (0s) must not be shorter than PSP_KEY_MEMORY (24h0m0s)",
				"KEY_RETENTION is 0s, must be positive"}},
		"memory": {func(c *API) { c.PSPMemory = 0 },
			[]string{"LEASE (30s), PSP_LATE_LIMIT (1m0s) and FIRST_LOOKUP (10s) together must be shorter than PSP_KEY_MEMORY (0s)", "PSP_KEY_MEMORY is 0s, must be positive"}},
		"total": {func(c *API) { c.PSPTotal = -time.Second },
			[]string{"PSP_TIMEOUT is -1s, must be positive"}},
		"breaker": {func(c *API) { c.PSPBreakerOpen = 0 },
			[]string{"PSP_BREAKER_OPEN is 0s, must be positive"}},
		"acquire": {func(c *API) { c.DBAcquire = -1 },
			[]string{"DB_ACQUIRE_TIMEOUT is -1ns, must be positive"}},
		"statement": {func(c *API) { c.DBStatementTimeout = 0 },
			[]string{"DB_STATEMENT_TIMEOUT is 0s, must be positive"}},
		"drain delay": {func(c *API) { c.DrainDelay = -time.Second },
			[]string{"DRAIN_DELAY is -1s, must not be negative"}},
		"total and lease": {func(c *API) { c.PSPTotal = 10*time.Second + 1 },
			[]string{"PSP_TIMEOUT (10.000000001s) times 3 must not exceed LEASE (30s): the lease would end while the PSP still works"}},
		"total and answer": {func(c *API) { c.PSPTotal, c.Lease = 15*time.Second+1, time.Minute },
			[]string{"PSP_TIMEOUT (15.000000001s) must not exceed 15s: the server ends a response after 30s"}},
		"wait in flight": {func(c *API) { c.InFlightWait = -1 },
			[]string{"IN_FLIGHT_WAIT is -1ns, must not be negative"}},
		"wait and answer": {func(c *API) { c.InFlightWait = 17*time.Second + 1 },
			[]string{"IN_FLIGHT_WAIT (17.000000001s) and PSP_TIMEOUT (8s) together must not exceed 25s: the server ends a response after 30s"}},
		"wait and shutdown": {func(c *API) { c.DrainLimit = 2*time.Second - 1 },
			[]string{"IN_FLIGHT_WAIT (2s) must not exceed LEASE plus 5s (1.999999999s), the time that a shutdown gives to requests in flight"}},
		"overflow": {func(c *API) { c.PSPTotal = maxNanos / 2 },
			[]string{"IN_FLIGHT_WAIT (2s) and PSP_TIMEOUT (1281023h53m38.427387903s) together must not exceed 25s: the server ends a response after 30s",
				"PSP_TIMEOUT (1281023h53m38.427387903s) must not exceed 15s: the server ends a response after 30s",
				"PSP_TIMEOUT (1281023h53m38.427387903s) times 3 must not exceed LEASE (30s): the lease would end while the PSP still works"}},
		"retention, memory": {func(c *API) { c.Retention = 24*time.Hour - 1 },
			[]string{"KEY_RETENTION (23h59m59.999999999s) must not be shorter than PSP_KEY_MEMORY (24h0m0s)"}},
		"lease and memory": {func(c *API) { c.Lease = 24 * time.Hour },
			[]string{"LEASE (24h0m0s), PSP_LATE_LIMIT (1m0s) and FIRST_LOOKUP (10s) together must be shorter than PSP_KEY_MEMORY (24h0m0s)"}},
		"public address": {func(c *API) { c.HTTPAddr = "8080" },
			[]string{`HTTP_ADDR is "8080", must be host:port or :port, such as :8080`}},
		"operator's address": {func(c *API) { c.OperatorAddr = "::1:8081" },
			[]string{`OPERATOR_ADDR is "::1:8081", must be host:port or :port, such as :8080`}},
		"connections":      {func(c *API) { c.DBMaxConns = 1 }, []string{counts}},
		"in flight":        {func(c *API) { c.PSPInFlight = 0 }, []string{counts}},
		"breaker failures": {func(c *API) { c.PSPBreakerFailures = 0 }, []string{counts}},
		"public URL": {func(c *API) { c.PublicURL = "pay.example" },
			[]string{"PUBLIC_URL must be an http or https URL, such as https://pay.example"}},
		"public URL scheme": {func(c *API) { c.PublicURL = "ftp://pay.example" },
			[]string{"PUBLIC_URL must be an http or https URL, such as https://pay.example"}},
		"PSP URL": {func(c *API) { c.PSPURL = "http://" },
			[]string{"PSP_URL must be an http or https URL, such as https://pay.example"}},
		"PSP URL garbage": {func(c *API) { c.PSPURL = "http://%zz" },
			[]string{"PSP_URL must be an http or https URL, such as https://pay.example"}},
		"PSP URL password": {func(c *API) { c.PSPURL = "http://user:secret@psp.example" },
			[]string{"PSP_URL must have neither a user nor a query nor a fragment: paths are added to it, and others read it"}},
		"public URL user": {func(c *API) { c.PublicURL = "http://user@pay.example" },
			[]string{"PUBLIC_URL must have neither a user nor a query nor a fragment: paths are added to it, and others read it"}},
		"public URL query": {func(c *API) { c.PublicURL = "http://pay.example?a=b" },
			[]string{"PUBLIC_URL must have neither a user nor a query nor a fragment: paths are added to it, and others read it"}},
		"public URL fragment": {func(c *API) { c.PublicURL = "http://pay.example/base#a" },
			[]string{"PUBLIC_URL must have neither a user nor a query nor a fragment: paths are added to it, and others read it"}},
		"public URL path that begins with a host": {func(c *API) { c.PublicURL = "https://pay.example//evil.example" },
			[]string{publicPath}},
		"public URL path with a backslash": {func(c *API) { c.PublicURL = `https://pay.example/\evil.example` },
			[]string{publicPath}},
		"public URL path that leads up": {func(c *API) { c.PublicURL = "https://pay.example/a/%2e%2e/b" },
			[]string{publicPath}},
		"public URL path that is not ASCII": {func(c *API) { c.PublicURL = "https://pay.example/zahlung/größe" },
			[]string{publicPath}},
		"no idle connections": {func(c *API) { c.HTTPIdle = 0 },
			[]string{"HTTP_IDLE_TIMEOUT is 0s, must be positive"}},
		"connections that are idle for ever": {func(c *API) { c.HTTPIdle = 2*time.Hour + 1 },
			[]string{"HTTP_IDLE_TIMEOUT (2h0m0.000000001s) must not exceed 2h0m0s"}},
		"audit": {func(c *API) { c.Audit = -1 },
			[]string{"KEY_AUDIT is -1ns, must not be negative"}},
		"first lookup": {func(c *API) { c.FirstLookup = -1 },
			[]string{"FIRST_LOOKUP is -1ns, must not be negative"}},
		"late limit": {func(c *API) { c.PSPLate = 0 }, []string{"PSP_LATE_LIMIT is 0s, must be positive"}},
		"commit slots": {func(c *API) { c.DBCommitSlots = -1 },
			[]string{"DB_COMMIT_SLOTS is -1, must not be negative"}},
		"no traces":                 {func(c *API) { c.TraceRatio = 0 }, []string{fmt.Sprintf(ratio, "0")}},
		"more traces than payments": {func(c *API) { c.TraceRatio = 1.5 }, []string{fmt.Sprintf(ratio, "1.5")}},
		"traces without a number":   {func(c *API) { c.TraceRatio = math.NaN() }, []string{fmt.Sprintf(ratio, "NaN")}},
		"collector": {func(c *API) { c.TraceEndpoint = "collector:4318" },
			[]string{"OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL, such as https://pay.example"}},
		"proxy of events": {func(c *API) { c.EventsProxy = "user:secret@proxy.example" },
			[]string{"EVENTS_PROXY must be an http or https URL, such as http://proxy.example:3128"}},
		"provider":    {func(c *API) { c.PSP = "adyen" }, []string{`PSP is "adyen", must be native or stripe`}},
		"no provider": {func(c *API) { c.PSP = "" }, []string{`PSP is "", must be native or stripe`}},
		"Stripe URL": {func(c *API) { c.StripeURL = "api.stripe.com" },
			[]string{"STRIPE_URL must be an http or https URL, such as https://pay.example"}},
		"Stripe URL password": {func(c *API) { c.StripeURL = "https://user:secret@api.stripe.com" },
			[]string{"STRIPE_URL must have neither a user nor a query nor a fragment: paths are added to it, and others read it"}},
		"publishable key": {func(c *API) { c.StripeSecret = "pk_test_1" }, []string{stripe}},
		// The events of the other mode could not be told from ours.
		"key of no mode":          {func(c *API) { c.StripeSecret = "sk_1234567890" }, []string{stripe}},
		"key of another mode":     {func(c *API) { c.StripeSecret = "rk_prod_1" }, []string{stripe}},
		"key of an organization":  {func(c *API) { c.StripeSecret = "sk_org_live_1" }, []string{stripe}},
		"key with its mode alone": {func(c *API) { c.StripeSecret = "sk_live_" }, []string{stripe}},
		"demo's webhook secret": {func(c *API) {
			c.PSPSecret, c.WebhookSecrets = "s", []string{"whsec_a", mockpsp.DemoWebhookSecret}
		}, []string{"WEBHOOK_SECRETS has the demo's secret, which is public, and PSP_SECRET is not the demo's"}},
		"demo's webhook secret at Stripe": {func(c *API) {
			c.StripeSecret, c.StripeWebhookSecrets = "sk_live_1", []string{demoStripeWebhookSecret}
		}, []string{"STRIPE_WEBHOOK_SECRETS has the demo's secret, which is public, and STRIPE_SECRET is not the demo's"}},
		"key in quotes": {func(c *API) { c.StripeSecret = `"sk_test_1"` }, []string{stripe}},
		"key and line":  {func(c *API) { c.StripeSecret = "sk_test_1\n" }, []string{stripe}},
		"Stripe's webhooks alone": {func(c *API) { c.StripeWebhookSecrets = []string{"whsec_aaaaaaaaaaaaaaaa"} },
			[]string{"STRIPE_WEBHOOK_SECRETS is set, and STRIPE_SECRET is not: set both, or neither"}},
		"Stripe's webhooks": {func(c *API) {
			c.StripeSecret, c.StripeWebhookSecrets = "sk_test_1", []string{"whsec_aaaaaaaaaaaaaaaa", "whsec_b"}
		},
			[]string{"STRIPE_WEBHOOK_SECRETS must be whsec_… secrets, separated by commas: number 2 is none"}},
		"two at once": {func(c *API) { c.PSP, c.DBMaxConns = "adyen", 0 },
			[]string{counts, `PSP is "adyen", must be native or stripe`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := defaults(t)
			row.edit(&c)
			err := c.Check()
			if err == nil {
				t.Fatal("taken")
			}
			lines := strings.Split(err.Error(), "\n")
			slices.Sort(lines)
			if diff := cmp.Diff(row.want, lines); diff != "" {
				t.Fatalf("refused otherwise (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValuesAtTheirLimitAreTaken(t *testing.T) {
	t.Parallel()
	c := defaults(t)
	c.PSPTotal = 10 * time.Second
	c.Retention = c.PSPMemory
	c.DBMaxConns, c.PSPInFlight, c.PSPBreakerFailures = 2, 1, 1
	c.TraceRatio = 1
	demo := mockpsp.DefaultConfig()
	c.PSPSecret, c.WebhookSecrets = demo.Secret, []string{mockpsp.DemoWebhookSecret}
	c.StripeSecret, c.StripeWebhookSecrets = demoStripeSecret, []string{demoStripeWebhookSecret}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestGarbageIsRefusedByTheSettingsName(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"LEASE": "30", "KEY_RETENTION": "two days", "PSP_KEY_MEMORY": "1d",
		"PSP_TIMEOUT": "8 s", "PSP_BREAKER_OPEN": "5sec",
		"PSP_IN_FLIGHT": "many", "PSP_BREAKER_FAILURES": "-1", "DB_MAX_CONNS": "99999999999",
		"DB_ACQUIRE_TIMEOUT": "1,5s", "DB_STATEMENT_TIMEOUT": "NaN",
		"DRAIN_DELAY": "soon", "IN_FLIGHT_WAIT": "a while", "LOG_LEVEL": "loud", "PUBLIC_URL": "x",
		"PSP_URL": "x", "PSP": "x", "STRIPE_URL": "x", "STRIPE_SECRET": "x", "STRIPE_WEBHOOK_SECRETS": "x",
		"HTTP_ADDR": "x", "OPERATOR_ADDR": "x", "TRACE_RATIO": "1%", "OTEL_EXPORTER_OTLP_ENDPOINT": "x",
		"EVENTS_ALLOW_NETWORKS": "10.0.0.1",
	} {
		_, err := load(map[string]string{name: value})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

// PUBLIC_URL is made of HTTP_ADDR where nobody has set it, and must not be blamed for it.
func TestBadAddressIsBlamedOnItsOwnSetting(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		":abc": "its port must be a number", "localhost:": "its port must be a number",
		":": "its port must be a number", "127.0.0.1:99999": "its port must be a number",
		":-1": "its port must be a number", ":http": "its port must be a number", "8080": "must be host:port",
		"::1:8081": "must be host:port", "": "",
		"127.0.0.1:0": "", ":65535": "", "[::1]:80": "", "pay.example:80": "",
	} {
		for setting, read := range map[string]func(func(string) string) error{
			"HTTP_ADDR":       func(getenv func(string) string) error { _, err := Load(getenv); return err },
			"OPERATOR_ADDR":   func(getenv func(string) string) error { _, err := Load(getenv); return err },
			"RECONCILER_ADDR": func(getenv func(string) string) error { _, err := LoadReconciler(getenv); return err },
		} {
			err := read(func(name string) string { return map[string]string{setting: addr}[name] })
			if want == "" && err == nil {
				continue
			}
			if err == nil || want == "" || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s is %q", setting, addr)) ||
				!strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "PUBLIC_URL") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s=%s: %v", setting, addr, err)
			}
		}
	}
	for _, addr := range []string{"a b:80", "user@host:80", "host?x:80", "a/b:80"} {
		if _, err := load(map[string]string{"HTTP_ADDR": addr}); err == nil ||
			!strings.HasPrefix(err.Error(), "HTTP_ADDR is ") {
			t.Errorf("HTTP_ADDR=%s: %v", addr, err)
		}
		_, err := LoadReconciler(func(name string) string { return map[string]string{"HTTP_ADDR": addr}[name] })
		if err == nil || !strings.HasPrefix(err.Error(), "HTTP_ADDR is ") {
			t.Errorf("HTTP_ADDR=%s, of the reconciler: %v", addr, err)
		}
	}
}

func TestEveryValueThatIsGarbageIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := load(map[string]string{"LEASE": "30", "DB_MAX_CONNS": "all"})
	want := "LEASE is \"30\", must be a span of time, such as 500ms, 30s or 48h\nDB_MAX_CONNS is \"all\", must be a whole number in its range"
	if err == nil || err.Error() != want {
		t.Fatalf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestPublicURLMayHaveAPathAndASlashAtItsEnd(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://pay.example/": "https://pay.example", "https://pay.example/a/b": "https://pay.example/a/b",
		"https://pay.example/a/": "https://pay.example/a", "https://pay.example/a%20b//": "https://pay.example/a%20b",
	} {
		c, err := load(map[string]string{"PUBLIC_URL": given})
		if err != nil || c.PublicURL != want {
			t.Errorf("PUBLIC_URL=%s: %q, %v", given, c.PublicURL, err)
		}
	}
}

func TestPublicURLFollowsTheAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		":9090": "http://localhost:9090", "0.0.0.0:80": "http://localhost:80", "[::]:80": "http://localhost:80",
		"127.0.0.1:1": "http://localhost:1", "[::1]:1": "http://localhost:1",
		"192.0.2.1:80": "http://192.0.2.1:80", "pay.example:80": "http://pay.example:80",
	} {
		c, err := load(map[string]string{"HTTP_ADDR": addr})
		if err != nil || c.PublicURL != want {
			t.Errorf("HTTP_ADDR=%s: %q, %v", addr, c.PublicURL, err)
		}
	}
}

func TestDescriptionListsEverySettingWithItsDefault(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Describe(&b, nil, API{}, Reconciler{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	all := settings(reflect.TypeFor[API]())
	shared := len(settings(reflect.TypeFor[Shared]()))
	all = append(all, settings(reflect.TypeFor[Reconciler]())[shared:]...)
	if len(lines) != len(all) {
		t.Fatalf("%d lines for %d settings", len(lines), len(all))
	}
	for i, line := range lines {
		if all[i].name == "" || all[i].desc == "" {
			t.Errorf("setting %d has no name or no description", i)
		}
		want := strings.Fields(strings.Join([]string{all[i].name, all[i].fallback, all[i].desc}, " "))
		if diff := cmp.Diff(want, strings.Fields(line)); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", i+1, diff)
		}
	}
}

// A decline that is resolved late must read like a live one, its problem type too.
func TestBothProcessesHaveOnePublicURLInOneEnvironment(t *testing.T) {
	t.Parallel()
	for _, env := range []map[string]string{{}, {"HTTP_ADDR": ":9000"}, {"HTTP_ADDR": "pay.example:80"},
		{"PUBLIC_URL": "https://pay.example/", "HTTP_ADDR": ":1"}} {
		getenv := func(name string) string { return env[name] }
		api, err := Load(getenv)
		if err != nil {
			t.Fatal(err)
		}
		reconciler, err := LoadReconciler(getenv)
		if err != nil || reconciler.PublicURL != api.PublicURL {
			t.Errorf("%v: %q and %q, %v", env, api.PublicURL, reconciler.PublicURL, err)
		}
	}
}

// Each row breaks what it names, and nothing else unless it cannot be helped.
func TestEachRelationOfTheReconcilerIsChecked(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		edit func(*Reconciler)
		want string
	}{
		"sweep": {func(c *Reconciler) { c.SweepEvery = 0 }, "SWEEP_EVERY is 0s, must be positive"},
		"claim": {func(c *Reconciler) { c.ClaimEvery = 0 }, "CLAIM_EVERY is 0s, must be positive"},
		"scan":  {func(c *Reconciler) { c.ScanEvery = 0 }, "SCAN_EVERY is 0s, must be positive"},
		"prune": {func(c *Reconciler) { c.PruneEvery = 0 }, "PRUNE_EVERY is 0s, must be positive"},
		"pace":  {func(c *Reconciler) { c.PruneRate = 0 }, "PRUNE_RATE is 0, must be at least 1"},
		"cap and memory": {func(c *Reconciler) { c.LookupCap = 24 * time.Hour },
			"LOOKUP_CAP (24h0m0s) and the grace period (1m30s) together must be shorter than PSP_KEY_MEMORY (24h0m0s)"},
		"first lookup": {func(c *Reconciler) { c.FirstLookup = 24 * time.Hour },
			"LEASE (30s), PSP_LATE_LIMIT (1m0s) and FIRST_LOOKUP (24h0m0s) together must be shorter than PSP_KEY_MEMORY (24h0m0s)"},
		"recheck": {func(c *Reconciler) { c.LookupRecheck = 0 }, "LOOKUP_RECHECK is 0s, must be positive"},
		"overlap": {func(c *Reconciler) { c.ScanOverlap = 3*time.Minute - 1 },
			"SCAN_OVERLAP (2m59.999999999s) must be at least twice LEASE plus PSP_LATE_LIMIT plus SCAN_EVERY (3m0s): a movement could slip through"},
		"cap": {func(c *Reconciler) { c.LookupCap = 4 * time.Second },
			"LOOKUP_CAP (4s) must not be shorter than LOOKUP_BASE (5s)"},
		"budget": {func(c *Reconciler) { c.LookupBudget = 0 }, "LOOKUP_BUDGET is 0, must be at least 1"},
		"dispatch": {func(c *Reconciler) { c.EventsDispatchEvery = 0 },
			"EVENTS_DISPATCH_EVERY is 0s, must be positive"},
		"no workers of events": {func(c *Reconciler) { c.EventsWorkers = 0 },
			"EVENTS_WORKERS is 0, must be at least 1 and at most 10000"},
		"too many workers of events": {func(c *Reconciler) { c.EventsWorkers = 10_001 },
			"EVENTS_WORKERS is 10001, must be at least 1 and at most 10000"},
		"timeout of events": {func(c *Reconciler) { c.EventsTimeout = 30*time.Second + 1 },
			"EVENTS_TIMEOUT (30.000000001s) must not exceed 30s"},
		"retention of events": {func(c *Reconciler) { c.EventsRetention = 72*time.Hour - 1 },
			"EVENTS_RETENTION (71h59m59.999999999s) must not be shorter than EVENTS_GIVE_UP (72h0m0s): events would go before they are given up"},
		"workers": {func(c *Reconciler) { c.PSPInFlight, c.ResolveWorkers = 6, 0 },
			"PSP_IN_FLIGHT is 6, must be at least 7 for the reconciler: 6 of them read ledgers"},
		"address": {func(c *Reconciler) { c.Addr = "8083" },
			`RECONCILER_ADDR is "8083", must be host:port or :port, such as :8080`},
		"shared": {func(c *Reconciler) { c.PSPLate = 0 }, "PSP_LATE_LIMIT is 0s, must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := LoadReconciler(func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			row.edit(&c)
			if err := c.Check(); err == nil || err.Error() != row.want {
				t.Fatalf("got %v, want %s", err, row.want)
			}
		})
	}
}

// A setting that is empty must be said as well: the child would inherit the parent's.
func TestEnvironmentNamesEverySetting(t *testing.T) {
	t.Parallel()
	env := Environment(func(name string) string { return map[string]string{"LEASE": "15s"}[name] }, API{}, Reconciler{})
	for _, want := range []string{"LEASE=15s", "DATABASE_URL=", "WEBHOOK_SECRETS=", "SWEEP_EVERY="} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
}

// A command that asks no provider needs no secret. A server needs the secret at the provider of its new tenants.
func TestServerNeedsTheSecretOfItsProvider(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		says string
	}{
		{nil, "PSP_SECRET is not set"},
		{map[string]string{"STRIPE_SECRET": "sk_test_1"}, "PSP_SECRET is not set"},
		{map[string]string{"PSP": "stripe", "PSP_SECRET": "s"}, "STRIPE_SECRET is not set, and PSP is stripe"},
		{map[string]string{"PSP_SECRET": "s"}, ""},
		{map[string]string{"PSP": "stripe", "STRIPE_SECRET": "sk_test_1"}, ""},
		{map[string]string{"PSP": "stripe", "STRIPE_SECRET": "rk_live_1"}, ""},
	} {
		settings, err := load(c.env)
		if err != nil {
			t.Fatal(err)
		}
		settings.DatabaseURL = "postgres://127.0.0.1/payonce"
		err = settings.CheckProcess()
		if (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%v: %v", c.env, err)
		}
	}
}
