package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"payonce/internal/postgres"
	"payonce/test/heldport"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// canary is a text that is sent in one place only, and looks like nothing else. It is a customer's id as well as a part
// of a password.
func canary(place string) string {
	sum := sha256.Sum256([]byte(place))
	return "c4n4ry" + hex.EncodeToString(sum[:5]) + "z"
}

// cardCanary is a card number (of a test account of nobody's): it must be found nowhere.
const cardCanary = "4539578763621486"

// spellings are the ways in which a text could come out, in lower case where the encoding does not care.
func spellings(text string) []string {
	all := []string{strings.ToLower(text), hex.EncodeToString([]byte(text)), "", "", "", ""}
	for _, c := range []byte(text) {
		all[2] += fmt.Sprintf("%%%02x", c)
		all[3] += fmt.Sprintf(`\u%04x`, c)
		all[4] += fmt.Sprintf(`\x%02x`, c)
		all[5] += fmt.Sprintf("&#%d;", c)
	}
	return all
}

// base64Spellings are what a text becomes within a longer one, wherever in it it begins.
func base64Spellings(text string) (all []string) {
	for before := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + text))
		// The ends depend on what stands next to the text.
		encoded = strings.TrimRight(encoded[(before*8+5)/6:], "=")
		encoded = encoded[:(len(text)*8-(6-before*8%6)%6)/6]
		all = append(all, encoded, strings.NewReplacer("+", "-", "/", "_").Replace(encoded))
	}
	return all
}

// flown lists the places whose canaries are in a text, in whatever spelling.
func flown(text string, places []string) (found []string) {
	lower := strings.ToLower(text)
	for _, place := range places {
		sent := canary(place)
		if place == "card" {
			sent = cardCanary
		}
		if slices.ContainsFunc(spellings(sent), func(s string) bool { return strings.Contains(lower, s) }) ||
			slices.ContainsFunc(base64Spellings(sent), func(s string) bool { return strings.Contains(text, s) }) {
			found = append(found, place)
		}
	}
	return found
}

func TestScannerFindsACanaryInEverySpelling(t *testing.T) {
	t.Parallel()
	secret := canary("secret")
	for _, around := range []string{"", "a", "ab", "abc", "user:", "?>ÿ"} {
		whole := around + secret + around
		for name, spelling := range map[string]string{
			"as it is": whole, "in capitals": strings.ToUpper(whole), "quoted": fmt.Sprintf("%q", whole),
			"hex": hex.EncodeToString([]byte(whole)),
			"HEX": fmt.Sprintf("%X", whole), "base64": base64.StdEncoding.EncodeToString([]byte(whole)),
			"URL base64": base64.URLEncoding.EncodeToString([]byte(whole)),
			"raw base64": base64.RawStdEncoding.EncodeToString([]byte(whole)), "query": url.QueryEscape(whole),
			"percent": spellings(secret)[2],
			"JSON":    spellings(secret)[3], "HTML": spellings(secret)[5],
		} {
			if got := flown("before "+spelling+" after", []string{"another", "secret"}); !slices.Equal(got,
				[]string{"secret"}) {
				t.Errorf("%s, after %q: found %q in %s", name, around, got, spelling)
			}
		}
	}
	if got := flown(`{"msg":"request","key":"c4n4ry"}`, []string{"secret"}); got != nil {
		t.Errorf("found %q where nothing is", got)
	}
}

// programs are the three commands, as they are shipped.
type programs struct {
	t                               testing.TB
	dir                             string
	public, operator, reconciler    string // addresses
	running                         []*exec.Cmd
	logs                            map[string]*lockedBuffer
	environment, reconcilerSettings []string
	settings                        []string // of the API and the reconciler, beside those that the test needs
}

// buildPrograms builds the commands into a directory, stripped as in the Dockerfile. That also links them faster.
func buildPrograms(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", dir+string(filepath.Separator),
		"payonce/cmd/api", "payonce/cmd/reconciler", "payonce/cmd/mockpsp")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

func newPrograms(t testing.TB, dir string) *programs {
	return &programs{t: t, dir: dir, logs: map[string]*lockedBuffer{}}
}

// start runs a program until the test ends or stop is called. What it says goes under its name.
func (p *programs) start(name, ready string, environment []string, args ...string) {
	p.t.Helper()
	command := exec.CommandContext(p.t.Context(), filepath.Join(p.dir, name), args...)
	log := &lockedBuffer{}
	p.logs[name+" log"] = log
	command.Env, command.Dir, command.Stdout, command.Stderr = environment, p.dir, log, log
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = command.Process.Kill() })
	p.running = append(p.running, command)
	eventually(p.t, "the start of "+name, func() bool {
		c, err := net.DialTimeout("tcp", ready, patience)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// stop interrupts all, the last first, and waits for their ends.
func (p *programs) stop() {
	p.t.Helper()
	for _, command := range slices.Backward(p.running) {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			p.t.Error(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		if err := wait.For(p.t, "the end of "+command.Path, ended); err != nil {
			p.t.Errorf("%s ended: %v", command.Path, err)
		}
	}
}

// fails runs a program that cannot start, or has nothing to do, and gives what it says.
func (p *programs) fails(name string, environment []string, args ...string) string {
	p.t.Helper()
	command := exec.CommandContext(p.t.Context(), filepath.Join(p.dir, name), args...)
	command.Env, command.Dir = environment, p.dir
	out, err := command.CombinedOutput()
	if len(out) == 0 || err == nil && !slices.Contains(args, "--help") {
		p.t.Errorf("%s %v: %v, says %q", name, args, err, out)
	}
	return string(out)
}

// run starts the three on w's database, with a canary for each secret.
func (p *programs) run(w *world) {
	p.t.Helper()
	psp := heldport.Address(p.t)
	p.public, p.operator, p.reconciler = heldport.Address(p.t), heldport.Address(p.t), heldport.Address(p.t)
	database := func(role postgres.Role) string {
		u, err := url.Parse(pgtest.As(p.t, w.db.Config().ConnString(), role))
		if err != nil {
			p.t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), canary("database password"))
		return "DATABASE_URL=" + u.String()
	}
	p.environment = []string{
		"PSP_URL=http://" + psp, "PSP_SECRET=" + canary("PSP secret"), "HTTP_ADDR=" + p.public, "OPERATOR_ADDR=" +
			p.operator, "PUBLIC_URL=http://payonce.test",
		"WEBHOOK_SECRETS=" + webhookCanary(), "LOG_LEVEL=debug", "PSP_TIMEOUT=1s", "LEASE=3s",
		"PSP_LATE_LIMIT=1s", "FIRST_LOOKUP=1s",
		"DB_ACQUIRE_TIMEOUT=5s",
	}
	p.environment = append(p.environment, p.settings...)
	p.reconcilerSettings = []string{
		"RECONCILER_ADDR=" + p.reconciler, "SCAN_EVERY=200ms", "SWEEP_EVERY=200ms", "CLAIM_EVERY=100ms",
		"LOOKUP_BASE=100ms", "LOOKUP_CAP=500ms", "LOOKUP_BUDGET=2",
	}
	p.start("mockpsp", psp, []string{
		"MOCKPSP_ADDR=" + psp, "MOCKPSP_LEDGER=" + filepath.Join(p.t.TempDir(), "ledger"), "MOCKPSP_SECRET=" +
			canary("PSP secret"), "MOCKPSP_HANG_LIMIT=3s",
		"MOCKPSP_WEBHOOK_URL=http://" + p.public + "/webhooks/psp", "MOCKPSP_WEBHOOK_SECRET=" + webhookCanary(),
		"MOCKPSP_WEBHOOK_DELAY=20ms",
	})
	p.start("api", p.operator, append([]string{database(postgres.API)}, p.environment...), "serve")
	p.start("reconciler", p.reconciler, slices.Concat([]string{database(postgres.Reconciler)}, p.environment,
		p.reconcilerSettings), "run")
}

func webhookCanary() string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(canary("webhook secret")+canary("webhook secret")))
}

// unset is an environment of a few settings, and nothing else.
func unset(settings ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH")}, settings...)
}
