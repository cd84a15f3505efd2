package lessons

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	labprogram "payonce/lab/program"
	"payonce/test/heldport"
	"payonce/test/pgtest"
)

// startsProgram is a block that starts a program: one line, as a reader types it in a terminal of its own.
var startsProgram = regexp.MustCompile(`^make (demo|demo SHORT=1|break BUG=([a-z0-9-]+)( SHORT=1)?)\n$`)

// builder builds each program once, for all lessons.
type builder struct {
	dir string
	mu  sync.Mutex
	all map[string]func() error
}

// build runs the command if no lesson has run it before, and waits for its end.
func (b *builder) build(t *testing.T, dir string, command ...string) {
	t.Helper()
	b.mu.Lock()
	name := strings.Join(command, " ")
	once, begun := b.all[name]
	if !begun {
		once = sync.OnceValue(func() error {
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Dir = filepath.Join(root, dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, out)
			}
			return nil
		})
		b.all[name] = once
	}
	b.mu.Unlock()
	if err := once(); err != nil {
		t.Fatal(err)
	}
}

// demo is the path of the program that a block starts, and the settings that make adds.
func (b *builder) demo(t *testing.T, block string) (program string, settings map[string]string) {
	t.Helper()
	words := startsProgram.FindStringSubmatch(block)
	if bug := words[2]; bug != "" {
		mutations := filepath.Join(b.dir, "mutations")
		b.build(t, "lab", "go", "build", "-buildvcs=false", "-o", mutations, "./mutations")
		b.build(t, ".", mutations, "demo", bug)
		// Data of its own, as with make break. A bug may be one of the schema, so the demo migrates them itself.
		settings = map[string]string{"DEMO_DATA_DIR": pgtest.DataDir(t)}
		if words[3] != "" {
			settings["SHORT"] = "1"
		}
		return filepath.Join(root, "bin/break", bug, "demo"), settings
	}
	program = filepath.Join(b.dir, "demo")
	b.build(t, ".", "go", "build", "-buildvcs=false", "-o", program, "./cmd/demo")
	b.build(t, "course", "go", "build", "-buildvcs=false", "-o", filepath.Join(b.dir, "naive"), "./steps/01")
	if words[1] == "demo SHORT=1" {
		return program, map[string]string{"SHORT": "1"}
	}
	return program, nil
}

// place is where the programs of one lesson listen and keep their data. A reader stops one and starts the next in the
// same place, too.
type place struct {
	dir       string
	addresses map[string]string // by the setting
	shown     map[string]string // by the setting: as the pages write it
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{dir: pgtest.MigratedDir(t), addresses: map[string]string{}, shown: map[string]string{
		"HTTP_ADDR": "localhost:8080", "OPERATOR_ADDR": "localhost:8081", "MOCKPSP_ADDR": "localhost:8082",
		"RECONCILER_ADDR": "localhost:8083", "NAIVE_ADDR": "localhost:8084", "CONSUMER_ADDR": "localhost:8086",
	}}
	for setting := range p.shown {
		port, err := heldport.Hold()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(port.Close)
		p.addresses[setting] = port.Address
	}
	return p
}

// here has the addresses of this place where a page has its own.
func (p place) here(text string) string {
	for setting, shown := range p.shown {
		text = strings.ReplaceAll(text, shown, p.addresses[setting])
		text = strings.ReplaceAll(text, strings.Replace(shown, "localhost", "127.0.0.1", 1), p.addresses[setting])
	}
	return text
}

// onPage has the page's addresses where a program has printed its own.
func (p place) onPage(text string) string {
	for setting, address := range p.addresses {
		text = strings.ReplaceAll(text, address, p.shown[setting])
		text = strings.ReplaceAll(text, strings.Replace(address, "127.0.0.1", "localhost", 1), p.shown[setting])
	}
	return text
}

// environment is what course/shell.sh reads.
func (p place) environment() []string {
	return []string{"API_URL=http://" + p.addresses["HTTP_ADDR"], "OPERATOR_URL=http://" + p.addresses["OPERATOR_ADDR"],
		"PSP_URL=http://" + p.addresses["MOCKPSP_ADDR"], "RECONCILER_URL=http://" + p.addresses["RECONCILER_ADDR"],
		"NAIVE_URL=http://" + p.addresses["NAIVE_ADDR"], "CONSUMER_ADDR=" + p.addresses["CONSUMER_ADDR"]}
}

// program is one that runs. Its output is kept, to tell why it has ended.
type program struct {
	cmd   *exec.Cmd
	ended <-chan struct{}

	mu    sync.Mutex
	said  bytes.Buffer
	ready chan struct{} // closed when it is ready
}

const ready = "Payonce is ready"

// Write takes what the program prints.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := strings.Contains(p.said.String(), ready)
	p.said.Write(b)
	if !before && strings.Contains(p.said.String(), ready) {
		close(p.ready)
	}
	return len(b), nil
}

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// start starts the program at its place, and returns when it is ready.
func (p place) start(ctx context.Context, t *testing.T, path string, settings map[string]string) *program {
	t.Helper()
	environment := map[string]string{"DEMO_DATA_DIR": p.dir, "PUBLIC_URL": "http://localhost:8080"}
	for _, inherited := range []string{"PATH", "HOME", "PG_BINDIR"} {
		environment[inherited] = os.Getenv(inherited)
	}
	maps.Copy(environment, p.addresses)
	maps.Copy(environment, settings)
	started := &program{cmd: exec.Command(path), ready: make(chan struct{})}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		started.cmd.Env = append(started.cmd.Env, name+"="+environment[name])
	}
	var output io.Writer = started
	started.cmd.Stdout, started.cmd.Stderr, started.cmd.SysProcAttr = output, output, labprogram.Attributes()
	var err error
	if started.ended, err = labprogram.Start(started.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { started.stop(t) })
	select {
	case <-started.ready:
	case <-started.ended:
		t.Fatalf("the program has ended:\n%s", started.output())
	case <-ctx.Done():
		t.Fatalf("the program is not ready:\n%s", started.output())
	}
	return started
}

// exports begins the line of the banner that a reader pastes where a lesson needs the database.
const exports = "export DATABASE_URL="

// exportLine is that line of a program that runs.
func (p *program) exportLine() string {
	_, line, _ := strings.Cut(p.output(), exports)
	line, _, _ = strings.Cut(line, "\n")
	return exports + line
}

// stopsWithin is what a program may take to finish what is in flight.
const stopsWithin = time.Minute

// stop stops the program as Ctrl-C does. It may be called again.
func (p *program) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGINT) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(stopsWithin):
		_ = p.cmd.Process.Kill()
		<-p.ended
		t.Errorf("the program has not stopped within %s:\n%s", stopsWithin, p.output())
	}
}
