package crashbutton

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/world"
	"payonce/test/heldport"
	"payonce/test/pgtest"
)

const (
	// patience bounds each wait for an event.
	patience = time.Minute
	// startLimit leaves time for an installation of PostgreSQL.
	startLimit = 5 * time.Minute
)

// The times of keys here are shorter than the demo's own. So the whole story of a payment whose API was killed is told
// several times while other kills follow: its lease ends, its outcome is looked up, and it is completed or given back.
// The relations to the mock PSP's times remain: its late charges come within pspLate.
const (
	lease   = 6 * time.Second
	pspLate = 6 * time.Second
	// A key whose record at the PSP always names another key is only resolved when the PSP has forgotten it.
	pspMemory = 30 * time.Second
)

func settings() []string {
	return []string{
		"DATABASE_URL=", "PUBLIC_URL=", "LEASE=" + lease.String(), "PSP_TIMEOUT=2s",
		"PSP_LATE_LIMIT=" + pspLate.String(), "PSP_KEY_MEMORY=" + pspMemory.String(), "FIRST_LOOKUP=500ms",
		"SWEEP_EVERY=300ms", "CLAIM_EVERY=200ms", "SCAN_EVERY=2s", "SCAN_OVERLAP=30s", "LOOKUP_BASE=300ms",
		"LOOKUP_CAP=2s", "LOOKUP_BUDGET=12",
	}
}

// demo is the program in a process of its own.
type demo struct {
	public, operator, psp string
	databaseURL           string
	cmd                   *exec.Cmd
	ended                 chan error

	mu  sync.Mutex
	out bytes.Buffer // what it has said
}

// button is one of the page's, and the process that it ends, by the page's name.
type button struct{ path, process string }

var (
	killAPI        = button{"kill-api", "API"}
	killReconciler = button{"kill-reconciler", "reconciler"}
	crashDatabase  = button{"crash-database", "database"}
)

// databaseLine is what the demo tells to people who want to use the commands.
var databaseLine = regexp.MustCompile(`export DATABASE_URL='([^']+)'`)

// startDemo builds the program as make demo does, and starts it with addresses and a data folder of its own.
func startDemo(t *testing.T) *demo {
	t.Helper()
	d := &demo{public: heldport.Address(t), operator: heldport.Address(t), psp: heldport.Address(t),
		ended: make(chan error, 1)}
	d.cmd = exec.Command(build(t))
	d.cmd.Env = append(append(os.Environ(), settings()...), "DEMO_DATA_DIR="+pgtest.MigratedDir(t),
		"HTTP_ADDR="+d.public,
		"OPERATOR_ADDR="+d.operator, "MOCKPSP_ADDR="+d.psp, "RECONCILER_ADDR="+heldport.Address(t))
	d.cmd.Stderr = d
	said, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // its children end with it
	ready := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			_, _ = d.Write(append(lines.Bytes(), '\n'))
			if found := databaseLine.FindStringSubmatch(lines.Text()); found != nil {
				ready <- found[1]
			}
		}
		d.ended <- d.cmd.Wait()
	}()
	select {
	case d.databaseURL = <-ready:
	case err := <-d.ended:
		t.Fatalf("start the demo: %v\n%s", err, d.said())
	case <-time.After(startLimit):
		t.Fatalf("the demo does not start\n%s", d.said())
	}
	return d
}

func build(t *testing.T) (program string) {
	t.Helper()
	root, err := world.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), "demo")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./cmd/demo")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the demo: %v\n%s", err, out)
	}
	return program
}

// Write keeps what the demo says.
func (d *demo) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.Write(p)
}

// said is the end of what the demo has said.
func (d *demo) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	const enough = 4000
	return string(d.out.Bytes()[max(0, d.out.Len()-enough):])
}

// stop ends the demo as Ctrl-C does.
func (d *demo) stop(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-d.ended:
		if err != nil {
			t.Errorf("the demo has ended with %v\n%s", err, d.said())
		}
	case <-time.After(patience):
		t.Errorf("the demo does not end\n%s", d.said())
	}
}

// press sends the button's form, as a browser without a script would.
func (d *demo) press(t *testing.T, b button) {
	t.Helper()
	res := d.ask(t, http.MethodPost, "/demo/"+b.path)
	defer res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s was answered %s", b.path, res.Status)
	}
}

// ask sends one request on a connection of its own, and follows no redirect.
func (d *demo) ask(t *testing.T, method, path string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.operator+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, d.said())
	}
	return res
}

// process is what the page shows of one that serves.
type process struct{ pid, restarts int }

// awaitServing reads the page's stream until the process serves, after at least so many restarts.
func (d *demo) awaitServing(t *testing.T, b button, restarts int) process {
	t.Helper()
	serves := regexp.MustCompile(`<b>` + b.process +
		`</b> runs since [0-9:.]+, process ([0-9]+)(?:, started again ([0-9]+) times?)?</li>`)
	res := d.ask(t, http.MethodGet, "/demo/live")
	defer res.Body.Close()
	var panel string
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the %s does not come back: %v\n%s\n%s", b.process, err, panel, d.said())
		}
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData {
			continue
		}
		var part struct {
			HTML string `json:"html"`
		}
		if err := json.Unmarshal([]byte(data), &part); err != nil {
			t.Fatal(err)
		}
		panel = part.HTML
		found := serves.FindStringSubmatch(panel)
		if found == nil {
			continue
		}
		is := process{number(t, found[1]), number(t, found[2])}
		if is.restarts >= restarts {
			return is
		}
	}
}

// number reads what the page shows. It shows no number of restarts before the first one.
func number(t *testing.T, text string) int {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
