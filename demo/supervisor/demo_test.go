package supervisor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"payonce/internal/app"
	"payonce/internal/cli"
	"payonce/test/heldport"
	"payonce/test/pgtest"
)

// asDemo in the environment makes the test binary the demo itself, so that it can be killed. The arguments of a child
// make the test binary that child.
const asDemo = "PAYONCE_TEST_AS_DEMO"

func TestMain(m *testing.M) {
	if os.Getenv(asDemo) != "" || childWork(os.Args[1:]) != nil {
		Main()
		os.Exit(0)
	}
	pgtest.Main(m)
}

const survivor = "a-key-that-survives-0001"

// wantAgain sends survivor to the next demo, which answers what the one before it has answered.
func wantAgain(t *testing.T, address string, paid answer) {
	t.Helper()
	if again := sendOnce(t, address, survivor, "pm_ok"); again.status != http.StatusCreated ||
		again.header.Get("Idempotent-Replayed") != "true" || again.body != paid.body {
		t.Fatalf("%d\n%s\n%s", again.status, paid.body, again.body)
	}
}

func TestDataSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := pgtest.DataDir(t)
	first := startDemo(t, dir)
	paid := sendOnce(t, first.public, survivor, "pm_ok")
	if paid.status != http.StatusCreated {
		t.Fatalf("status %d: %s", paid.status, paid.body)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	// The line that the banner has shown is in the environment now.
	url := regexp.MustCompile(`export DATABASE_URL='([^']*)'`).FindStringSubmatch(first.out.String())
	second := startDemo(t, dir, "DATABASE_URL="+url[1])
	wantAgain(t, second.public, paid)
}

func TestKilledDemoLeavesNothingThatTheNextTripsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it kills a demo, and starts it again")
	}
	t.Parallel()
	dir := pgtest.DataDir(t)
	address := heldport.Address(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asDemo+"=1", "DEMO_DATA_DIR="+dir, "HTTP_ADDR="+address,
		"OPERATOR_ADDR="+heldport.Address(t), "MOCKPSP_ADDR="+heldport.Address(t),
		"RECONCILER_ADDR="+heldport.Address(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for buffer := make([]byte, 4096); !strings.Contains(said.String(), "Payonce is ready"); {
		n, err := out.Read(buffer)
		said.Write(buffer[:n])
		if err != nil {
			t.Fatalf("start the demo: %v\n%s", err, &said)
		}
	}
	paid := sendOnce(t, address, survivor, "pm_ok")
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	next := startDemo(t, dir)
	wantAgain(t, next.public, paid)
}

func TestSecondDemoIsRefused(t *testing.T) {
	t.Parallel()
	dir := pgtest.DataDir(t)
	startDemo(t, dir)
	err := try(t, map[string]string{"DEMO_DATA_DIR": dir})
	if err == nil || !strings.Contains(err.Error(), "another demo is running") {
		t.Fatalf("a second demo on the same data: %v", err)
	}
}

// Nothing is started for a demo that cannot listen: of PostgreSQL, there is not even the directory.
func TestAddressesAreCheckedBeforePostgreSQLStarts(t *testing.T) {
	t.Parallel()
	taken, err := app.Listen(t.Context(), app.Address{Setting: "x", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer taken[0].Close()
	addr := taken[0].Addr().String()
	for _, c := range []struct {
		env  map[string]string
		want []string
	}{
		{map[string]string{"HTTP_ADDR": addr}, []string{"HTTP_ADDR=" + addr + " is taken"}},
		{map[string]string{"OPERATOR_ADDR": addr, "MOCKPSP_ADDR": addr}, []string{
			"OPERATOR_ADDR=" + addr + " is taken", "MOCKPSP_ADDR=" + addr + " is taken",
			"if another demo is running, stop it",
		}},
		{map[string]string{"RECONCILER_ADDR": addr}, []string{"RECONCILER_ADDR=" + addr + " is taken"}},
		{map[string]string{"HTTP_ADDR": ":abc"}, []string{`HTTP_ADDR is ":abc": its port`}},
		{map[string]string{"HTTP_ADDR": "localhost:"}, []string{`HTTP_ADDR is "localhost:": its port`}},
		{map[string]string{"MOCKPSP_ADDR": "localhost:", "OPERATOR_ADDR": "8081"},
			[]string{`MOCKPSP_ADDR is "localhost:": its port`, `OPERATOR_ADDR is "8081"`}},
	} {
		c.env["DEMO_DATA_DIR"] = filepath.Join(pgtest.DataDir(t), "data")
		err := try(t, c.env)
		if err == nil || strings.Contains(err.Error(), "PUBLIC_URL") {
			t.Errorf("%v: %v", c.env, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: no %q in %v", c.env, want, err)
			}
		}
		if _, err := os.Stat(c.env["DEMO_DATA_DIR"]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: PostgreSQL was begun with: %v", c.env, err)
		}
	}
}

func TestCommandLineThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"now", "--port", "--port 1", "help me"} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(args), func(string) string { return "" }, &out,
			io.Discard); cli.Code(err) != 2 || out.Len() > 0 {
			t.Errorf("demo %s: exit code %d, %v", args, cli.Code(err), err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, func(string) string { return "garbage" }, &out,
		io.Discard); err != nil || !strings.HasPrefix(out.String(), "demo ") {
		t.Errorf("--version: %v %q", err, out.String())
	}
}

// try runs a demo that is expected to give up by itself.
func try(t *testing.T, env map[string]string) error {
	t.Helper()
	for _, setting := range []string{"HTTP_ADDR", "OPERATOR_ADDR", "MOCKPSP_ADDR", "RECONCILER_ADDR"} {
		if env[setting] == "" {
			env[setting] = heldport.Address(t)
		}
	}
	for _, inherited := range []string{"PATH", "PG_BINDIR", "HOME"} {
		env[inherited] = os.Getenv(inherited)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return run(ctx, nil, func(name string) string { return env[name] }, io.Discard, io.Discard)
}

func TestHelpListsTheSettings(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, os.Getenv, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{
		"DEMO_DATA_DIR", "MOCKPSP_ADDR", "HTTP_ADDR", "LEASE", "RECONCILER_ADDR", "127.0.0.1:8083",
	} {
		if !strings.Contains(out.String(), setting) {
			t.Errorf("--help does not name %s", setting)
		}
	}
}

func TestDatabaseOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := pgtest.OwnServer(t, false)
	conn := pgtest.Connect(t, server.URL("postgres"))
	pgtest.Exec(t, conn, "CREATE DATABASE theirs")
	theirs := pgtest.Connect(t, server.URL("theirs"))
	pgtest.Exec(t, theirs, "CREATE TABLE users (id int)")
	err := try(t, map[string]string{"DATABASE_URL": server.URL("theirs"), "DEMO_DATA_DIR": pgtest.DataDir(t)})
	if err == nil || !strings.Contains(err.Error(), "in use for something else") {
		t.Fatalf("a demo on a database with tables of its own: %v", err)
	}
	tables := pgtest.Value[int](t, theirs,
		"SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'")
	if tables != 1 {
		t.Fatalf("the demo has left %d tables there", tables-1)
	}
}

func TestEmptyDatabaseOfDatabaseURLIsUsed(t *testing.T) {
	t.Parallel()
	server := pgtest.OwnServer(t, false)
	d := startDemo(t, filepath.Join(pgtest.DataDir(t), "new"), "DATABASE_URL="+server.URL("postgres"))
	if res := sendOnce(t, d.public, survivor, "pm_ok"); res.status != http.StatusCreated {
		t.Fatalf("status %d: %s", res.status, res.body)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	registered := pgtest.Connect(t, server.URL("postgres"))
	pgtest.Exec(t, registered, "INSERT INTO tenants (id, psp_account) VALUES ('real', 'real')")
	err := try(t, map[string]string{"DATABASE_URL": server.URL("postgres"), "DEMO_DATA_DIR": pgtest.DataDir(t)})
	if err == nil || !strings.Contains(err.Error(), "in use for something else") {
		t.Fatalf("a demo beside a real tenant: %v", err)
	}
}
