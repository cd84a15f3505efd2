package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/cli"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const patience = time.Minute

// environment is a getenv that knows these variables only.
func environment(pairs ...string) func(string) string {
	env := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return env[name] }
}

// command runs the program with args.
func command(t *testing.T, getenv func(string) string, args ...string) (stdout string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	err = run(ctx, args, getenv, &out, &errs)
	return out.String(), err
}

func TestHelpNeedsNoSettings(t *testing.T) {
	t.Parallel()
	garbage := func(string) string { return "garbage" }
	for args, want := range map[string]string{
		"--help": "api serve", "-h": "api serve", "-help": "api serve", "help": "api serve",
		"serve --help": "Usage: api serve", "serve -h": "Usage: api serve",
		"migrate --help": "Usage: api migrate", "migrate -help": "Usage: api migrate",
		"installation --help": "Usage:\n  api installation show",
		"healthcheck --help":  "Usage: api healthcheck", "keys --help": "api keys create",
		"keys help": "api keys create", "keys create --help": "api keys create", "keys list -h": "api keys create",
		"keys expire -help": "api keys create",
		"tenants --help":    "api tenants rate", "tenants help": "api tenants rate",
		"tenants list -h":       "api tenants rate",
		"tenants rate x --help": "api tenants rate",
	} {
		out, err := command(t, garbage, strings.Fields(args)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("api %s: %v\n%s", args, err, out)
		}
	}
	for _, args := range []string{"--help", "serve --help"} {
		out, _ := command(t, garbage, strings.Fields(args)...)
		for _, setting := range []string{"DATABASE_URL", "HTTP_ADDR", "LEASE", "DRAIN_DELAY", "127.0.0.1:8081"} {
			if !strings.Contains(out, setting) {
				t.Errorf("api %s does not list %s", args, setting)
			}
		}
	}
}

// What is wrong with a command line is said before a setting is asked for: there are none here.
func TestCommandLineThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	for args, want := range map[string]string{
		"": "name a command", "frobnicate": `command "frobnicate" is not known`,
		"Serve": `command "Serve" is not known`, "--frob": `command "--frob" is not known`,
		"serve now": `argument "now" is not known`, "serve --port 1": "flag provided but not defined: -port",
		"migrate --down":                       "flag provided but not defined: -down",
		"roles x":                              `argument "x" is not known; see api roles --help`,
		"installation":                         "say api installation show, renew or set",
		"installation renew x":                 `argument "x" is not known; see api installation --help`,
		"healthcheck x":                        `argument "x" is not known`,
		"keys":                                 "say api keys create, list or expire",
		"keys delete":                          "say api keys create, list or expire",
		"keys list all":                        `argument "all" is not known`,
		"keys create":                          "name either --tenant or --operator",
		"keys create --tenant acme --operator": "name either --tenant or --operator",
		"keys create --tenant":                 "flag needs an argument",
		"keys create --user x":                 "flag provided but not defined",
		"keys create --tenant acme x":          `argument "x" is not known`,
		"keys expire":                          "--id must be an id of api keys list",
		"keys expire --id x":                   "--id must be an id of api keys list",
		"keys expire --id " + id + " --after -1s": "--after must not be negative", "keys expire --id " + id +
			" --after soon": "invalid value",
		// Without the flag in between, the key would end now and not in a day.
		"keys expire --id " + id + " 24h":                             `argument "24h" is not known`,
		"tenants":                                                     "say api tenants create, list or rate",
		"tenants limit":                                               "say api tenants create, list or rate",
		"tenants list acme":                                           `argument "acme" is not known`,
		"tenants create":                                              "name the tenant: api tenants create NAME",
		"tenants create acme corp":                                    `argument "corp" is not known`,
		"tenants create acme --psp adyen":                             `"adyen", must be native or stripe`,
		"tenants create acme --psp stripe":                            "--psp-account: acct_… of a connected",
		"tenants create acme --psp stripe --psp-account a":            "an account at Stripe begins with acct_",
		"tenants create acme --per-second 0":                          "--per-second must be from 1 to 100000",
		"tenants create acme --burst 100001":                          "--burst must be from 1 to 100000",
		"tenants rate":                                                "name a tenant by --tenant",
		"tenants rate --tenant acme":                                  "--per-second must be from 1 to 100000",
		"tenants rate acme --per-second 5":                            `argument "acme" is not known`,
		"tenants rate --tenant acme --per-second 0":                   "--per-second must be from 1 to 100000",
		"tenants rate --tenant acme --per-second 100001":              "--per-second must be from 1 to 100000",
		"tenants rate --tenant acme --per-second many":                "invalid value",
		"tenants rate --tenant acme --per-second 5 --burst -1":        "--burst must be from 1 to 100000",
		"tenants rate --tenant acme --per-second 5 --burst 100001":    "--burst must be from 1 to 100000",
		"tenants rate --tenant acme --per-second 5 --burst 1e3":       "invalid value",
		"tenants rate --tenant acme --per-second 5 10":                `argument "10" is not known`,
		"tenants rate --tenant acme --per-second 5 --bursts 10":       "flag provided but not defined",
		"tenants rate --tenant acme --per-second 9223372036854775807": "--per-second must be from 1 to 100000",
	} {
		out, err := command(t, environment(), strings.Fields(args)...)
		if cli.Code(err) != 2 || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("api %s: exit code %d, %v\n%s", args, cli.Code(err), err, out)
		}
	}
}

func TestVersionNeedsNoSettings(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--version", "-version", "version"} {
		if out, err := command(t, environment("LEASE", "garbage"), arg); err != nil ||
			!regexp.MustCompile(`^api \S.*, go\S+\n$`).MatchString(out) {
			t.Errorf("api %s: %v %q", arg, err, out)
		}
	}
}

func TestMissingDatabaseIsExplained(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"serve", "migrate", "roles", "keys list", "keys create --tenant acme", "keys expire --id " + uuid.NewString(),
		"tenants list", "tenants create acme",
		"tenants rate --tenant acme --per-second 1",
	} {
		if _, err := command(t, environment(), strings.Fields(args)...); cli.Code(err) != 1 ||
			!strings.HasPrefix(err.Error(), "DATABASE_URL is not set") {
			t.Errorf("api %s: %v", args, err)
		}
		if _, err := command(t, environment("LEASE", "1"), strings.Fields(args)...); err == nil ||
			!strings.Contains(err.Error(), "LEASE") {
			t.Errorf("api %s with a broken setting: %v", args, err)
		}
	}
}

func TestServeAsksForTheSecretAtThePSP(t *testing.T) {
	t.Parallel()
	if _, err := command(t, environment("DATABASE_URL", "postgres://127.0.0.1:1/none"), "serve"); err == nil ||
		!strings.HasPrefix(err.Error(), "PSP_SECRET is not set") {
		t.Fatal(err)
	}
	getenv := environment("DATABASE_URL", "postgres://127.0.0.1:1/none", "PSP", "stripe", "PSP_SECRET", "s")
	if _, err := command(t, getenv, "serve"); err == nil ||
		!strings.HasPrefix(err.Error(), "STRIPE_SECRET is not set") {
		t.Fatal(err)
	}
}

func TestHealthcheckAsksReadyzOfTheOperatorsListener(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.Method != http.MethodGet {
			t.Errorf("asked for %s %s", r.Method, r.URL.Path)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"ready":true}`)
	}))
	defer s.Close()
	host := s.Listener.Addr().String()
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{host, ":" + port, "0.0.0.0:" + port, "[::]:" + port} {
		if out, err := command(t, environment("OPERATOR_ADDR", addr), "healthcheck"); err != nil ||
			out != `{"ready":true}` {
			t.Errorf("%s: %v %s", addr, err, out)
		}
	}
	status = http.StatusServiceUnavailable
	if _, err := command(t, environment("OPERATOR_ADDR", host), "healthcheck"); err == nil ||
		err.Error() != "not ready: status 503" {
		t.Errorf("a server that is not ready: %v", err)
	}
	s.Close()
	if _, err := command(t, environment("OPERATOR_ADDR", host), "healthcheck"); err == nil ||
		!strings.HasPrefix(err.Error(), "not ready: ") {
		t.Errorf("no server: %v", err)
	}
	if _, err := command(t, environment("OPERATOR_ADDR", "nonsense"), "healthcheck"); err == nil ||
		!strings.HasPrefix(err.Error(), "OPERATOR_ADDR") {
		t.Errorf("no address: %v", err)
	}
}

// shout is a log that tells when a line has come.
type shout struct {
	mu    sync.Mutex
	seen  bytes.Buffer
	await string
	came  chan string
}

func (s *shout) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Write(p)
	if strings.Contains(string(p), s.await) {
		s.came <- string(p)
	}
	return len(p), nil
}

func TestServeServesUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	getenv := environment("DATABASE_URL", pgtest.NewURL(t), "HTTP_ADDR", "127.0.0.1:0", "OPERATOR_ADDR", "127.0.0.1:0",
		"PSP_SECRET", "s")
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	log := &shout{await: `"msg":"serving"`, came: make(chan string, 1)}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"serve"}, getenv, &bytes.Buffer{}, log) }()
	var line string
	select {
	case line = <-log.came:
	case err := <-ended:
		t.Fatalf("ended: %v", err)
	case <-time.After(patience):
		t.Fatal("does not serve")
	}
	operator := regexp.MustCompile(`"operator":"([^"]+)"`).FindStringSubmatch(line)[1]
	if out, err := command(t, environment("OPERATOR_ADDR", operator), "healthcheck"); err != nil {
		t.Fatalf("not ready: %v %s", err, out)
	}
	interrupt()
	if err := wait.For(t, "the end", ended); err != nil {
		t.Fatalf("ended: %v", err)
	}
}
