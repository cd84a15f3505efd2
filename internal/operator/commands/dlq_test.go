package commands

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/demo/mockpsp"
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/tenants"
	"payonce/test/pgtest"
)

const dlqKey = "order-0000000042"

// operatorCall is a person at a terminal, with a database and a PSP of the test's own.
type operatorCall struct {
	t    *testing.T
	pool *pgxpool.Pool
	its  *pgxpool.Pool // the command's own, for closing
	pay  *payments.Service
	keys *idempotency.Keys
	ops  *operator.Service
	out  bytes.Buffer
	deps DLQDeps
	// lossy: the PSP does what it is asked for and answers 500.
	lossy atomic.Bool
}

func dlqServer(t *testing.T) *operatorCall {
	t.Helper()
	c := &operatorCall{t: t}
	url := pgtest.NewURL(t)
	for _, pool := range []**pgxpool.Pool{&c.pool, &c.its} {
		var err error
		if *pool, err = pgxpool.New(context.Background(), url); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*pool).Close)
	}
	db := postgres.Wrap(c.its, 20*time.Second)
	if err := tenants.NewRegistry(db, uuid.NewV7).EnsureTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	config := mockpsp.DefaultConfig()
	config.Secret = "test-psp-secret"
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.lossy.Load() {
			mock.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		mock.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	psp, err := native.New(server.URL, "test-psp-secret", gateway.DefaultLimits(), nil, time.Now,
		func(string, time.Duration) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	keys := idempotency.New(db, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour, GracePeriod: 90 * time.Second,
		FirstLookup: time.Hour,
	}, time.Now)
	log := slog.New(slog.DiscardHandler)
	c.pay = payments.New(payments.Config{
		DB: db, Keys: keys, PSPs: gateway.PSPs{native.Name: psp}, NewID: uuid.NewV7,
		Metrics:   telemetry.NewMetrics(prometheus.NewRegistry()),
		Log:       log,
		PublicURL: "http://payonce.test", Deadline: 30 * time.Second,
	})
	c.keys = keys
	c.ops = operator.New(operator.Config{DB: db, Keys: keys, Payments: c.pay, Log: log})
	c.deps = DLQDeps{Stdout: &c.out, Open: func() (*operator.Service, func(), error) { return c.ops, func() {}, nil }}
	return c
}

// lost is the id of a dead letter about an unknown key, which the PSP has charged.
func (c *operatorCall) lost() string {
	c.t.Helper()
	key, err := idempotency.ParseKey(dlqKey)
	if err != nil {
		c.t.Fatal(err)
	}
	c.lossy.Store(true)
	_, err = c.pay.Create(c.t.Context(),
		payments.Keyed{Merchant: payments.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: key},
		payments.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok"})
	c.lossy.Store(false)
	if err != nil {
		c.t.Fatal(err)
	}
	var subject uuid.UUID
	if err := c.pool.QueryRow(c.t.Context(),
		"SELECT subject FROM idempotency_keys WHERE status = 'unknown'").Scan(&subject); err != nil {
		c.t.Fatal(err)
	}
	about := deadletters.About{Tenant: "acme", Operation: "POST /payments", Key: dlqKey, Generation: 1}
	return c.put(deadletters.DeadLetter{
		Kind: deadletters.LookupsExhausted, Finding: about.KeyFinding(subject), About: &about, Subject: &subject,
		Reason: "the PSP says nothing",
	})
}

func (c *operatorCall) stray() string {
	return c.put(deadletters.DeadLetter{Kind: deadletters.UnknownMovement, Finding: uuid.NewString(),
		Reason: "nobody\x1b[2J asked \u009b1m" + strings.Repeat("x", 100)})
}

func (c *operatorCall) put(l deadletters.DeadLetter) string {
	c.t.Helper()
	l.ID, l.Evidence = uuid.Must(uuid.NewV7()), []byte("{\"note\": \"\u009b31m\", \"id\": \"ch_1\"}")
	if err := postgres.Wrap(c.pool, 0).Pipeline(c.t.Context(), deadletters.Open(l)); err != nil {
		c.t.Fatal(err)
	}
	return l.ID.String()
}

// run is the command's output.
func (c *operatorCall) run(args ...string) (string, error) {
	c.out.Reset()
	err := DLQ(c.t.Context(), args, c.deps)
	return c.out.String(), err
}

func (c *operatorCall) must(args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	if err != nil {
		c.t.Fatalf("dlq %v: %v", args, err)
	}
	return out
}

func TestDLQListsDeadLettersInATable(t *testing.T) {
	t.Parallel()
	c := dlqServer(t)
	if out := c.must("list"); out != "There are no open dead letters.\n" {
		t.Errorf("without dead letters the list is %q", out)
	}
	lost, stray := c.lost(), c.stray()
	lines := strings.Split(strings.TrimSpace(c.must("list")), "\n")
	if len(lines) != 3 {
		t.Fatalf("lines are %q", lines)
	}
	for i, want := range []string{
		`^ID +KIND +AGE +TENANT +ABOUT +REASON$`,
		`^` + stray + `  unknown_movement +\d+s +- +- +nobody\?\[2J asked \?1mx+…$`,
		`^` + lost + `  lookups_exhausted +\d+s +acme +pay_\w{26} +the PSP says nothing$`,
	} {
		if !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %q, want %s", lines[i], want)
		}
	}
	first := c.must("list", "--limit", "1")
	cursor := regexp.MustCompile(`--cursor (\S+)`).FindStringSubmatch(first)
	if cursor == nil || !strings.Contains(first, stray) {
		t.Fatalf("first page is %s", first)
	}
	if second := c.must("list", "--limit=1", "--cursor", cursor[1]); !strings.Contains(second, lost) ||
		strings.Contains(second, "--cursor") {
		t.Errorf("second page is %s", second)
	}
	if out := c.must("list", "--json"); !strings.HasPrefix(out, `{"data":[{"id":"`+stray+`"`) ||
		!strings.HasSuffix(out, "}\n") {
		t.Errorf("JSON is %s", out)
	}
}

func TestDLQShowsADeadLetterWithAllThatBelongsToIt(t *testing.T) {
	t.Parallel()
	c := dlqServer(t)
	id := c.lost()
	if _, err := c.run("resolve", id, "--action", "dismiss", "--reason", "not mine", "--actor", "ann"); err == nil {
		t.Fatal("an unknown key was dismissed")
	}
	out := c.must("show", id)
	for _, want := range []string{
		`dead letter +` + id, `kind +lookups_exhausted`, `status +open, version 1`, `payment +pay_\w+, processing`,
		`key +` + dlqKey + `, generation 1: unknown`,
		"Evidence\n\\{\n  \"id\": \"ch_1\",\n  \"note\": \"\\?31m\"\n\\}\n", `request +- +in_progress +1 +1 +reserved`,
		`owner +in_progress +unknown +1 +1 `, `ann +dismiss +refused +not mine +The dead letter's key`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
	if strings.ContainsAny(out+c.must("show", c.stray()), "\x1b\u009b") {
		t.Error("a terminal would obey")
	}
	if out := c.must("show", "--json", id); !strings.Contains(out, `"keyStatus":"unknown"`) ||
		!strings.Contains(out, `"audit":[{`) {
		t.Errorf("JSON is %s", out)
	}
}

func TestDLQResolves(t *testing.T) {
	t.Parallel()
	c := dlqServer(t)
	id := c.lost()
	if out := c.must("resolve", "--action", "executed", id, "--reason", "called them", "--actor",
		"ann"); out != "Resolved "+id+" as executed, by ann.\n" {
		t.Errorf("output is %q", out)
	}
	if out := c.must("show",
		id); !regexp.MustCompile(`resolved +\S+ as executed, by ann: called them`).MatchString(out) ||
		!strings.Contains(out, "1: completed") {
		t.Errorf("dead letter is %s", out)
	}
	if out := c.must("list", "--status", "resolved"); !strings.Contains(out, id) {
		t.Errorf("resolved are %s", out)
	}
	other := c.stray()
	if out := c.must("resolve", other, "--action=dismiss", "--reason=seen", "--version=1",
		"--json"); !strings.Contains(out, `"actor":"`+loginName()+`"`) {
		t.Errorf("JSON is %s", out)
	}
}

func TestDLQRefusalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	c := dlqServer(t)
	id := c.lost()
	nobody := uuid.NewString()
	for args, want := range map[string]string{
		"":                                  "say dlq list, dlq show or dlq resolve",
		"frob":                              "say dlq list, dlq show or dlq resolve",
		"list x":                            `argument "x" is not known`,
		"list --status all":                 "--status must be open or resolved",
		"list --limit 0":                    "--limit must be from 1 to 100",
		"list --limit 101":                  "--limit must be from 1 to 100",
		"list --cursor x":                   "--cursor must be",
		"list --frob":                       "reconciler dlq --help",
		"show":                              "name a dead letter by its id",
		"show 7":                            "name a dead letter by its id",
		"show " + id + " x":                 `argument "x" is not known`,
		"show " + nobody:                    "there is no dead letter " + nobody,
		"resolve --action retry --reason x": "name a dead letter by its id",
		"resolve " + nobody + " --action retry --reason x":                    "there is no dead letter",
		"resolve " + nobody + " --action retry --reason x --version 1":        "there is no dead letter",
		"resolve " + id + " --reason x":                                       "--action must be retry",
		"resolve " + id + " --action retry":                                   "--reason must not be empty",
		"resolve " + id + " --action retry --reason x --version 0":            "--version must be",
		"resolve " + id + " --action retry --reason x --version 4294967297":   "--version must be",
		"resolve " + id + " --action retry --reason x --version 2":            "refused: The dead letter has version 1, not 2. See reconciler dlq show",
		"resolve " + id + " --action retry --reason x --psp-id ch_1":          "--psp-id goes with",
		"resolve " + id + " --action not_executed --reason x":                 "refused: The PSP knows it",
		"resolve " + id + " --action executed --reason x --psp-id ch_another": "not as ch_another",
	} {
		if out, err := c.run(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("dlq %s: %v %q, want %s", args, err, out, want)
		}
	}
	c.its.Close()
	if _, err := c.run("list"); err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
		t.Errorf("without a database: %v", err)
	}
}

func TestDLQHelpNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--help", "-h", "help", "list --help", "show -h", "resolve -help"} {
		var out bytes.Buffer
		if err := DLQ(t.Context(), strings.Fields(args), DLQDeps{Stdout: &out}); err != nil || out.String() != dlqHelp {
			t.Errorf("dlq %s: %v %s", args, err, out.String())
		}
	}
}

func TestDLQAgeIsSaidInTwoUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", time.Minute: "1m00s", time.Hour - 1: "59m59s", time.Hour: "1h00m",
		48*time.Hour - 1: "47h59m", 48 * time.Hour: "2d00h", 50*time.Hour + time.Minute: "2d02h",
	} {
		if got := age(d); got != want {
			t.Errorf("%s is said %q, want %q", d, got, want)
		}
	}
}
