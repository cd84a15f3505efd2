package supervisor

import (
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"payonce/test/heldport"
	"payonce/test/pgtest"
)

func TestNaiveServerChargesOnTheSamePSPAndEveryPageSaysSo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it builds the naive server, which is of another module")
	}
	program := filepath.Join(t.TempDir(), "naive")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./steps/01")
	build.Dir = filepath.Join("..", "..", "course")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the naive server: %v\n%s", err, out)
	}
	address := heldport.Address(t)
	d := startDemo(t, pgtest.MigratedDir(t), "NAIVE_PROGRAM="+program, "NAIVE_ADDR="+address)
	if res := sendOnce(t, address, survivor, "pm_ok"); res.status != http.StatusCreated {
		t.Fatalf("the naive server answers %d: %s", res.status, res.body)
	}
	if ledger := ask(t, http.MethodGet, d.psp, "/_ledger?account="+naiveAccount, "", nil).body; strings.Count(ledger,
		`"id":"ch_`) != 1 {
		t.Errorf("the PSP's ledger has not one charge: %s", ledger)
	}
	const said = "The naive server runs beside this demo"
	for _, page := range [][2]string{{d.operator, "/demo/"}, {d.operator, "/console/sign-in"},
		{d.reconciler, "/console/sign-in"}} {
		if text := ask(t, http.MethodGet, page[0], page[1], "", nil).body; !strings.Contains(text, said) {
			t.Errorf("%s does not say %q:\n%s", page, said, text)
		}
	}
	if !strings.Contains(d.out.String(), said) {
		t.Errorf("the banner does not say %q:\n%s", said, d.out)
	}
}

func TestNaiveServerThatCannotServeEndsTheDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("long: two demos")
	}
	t.Parallel()
	for program, want := range map[string]string{
		filepath.Join(t.TempDir(), "absent"):         "start the naive server: ",
		script(t, "echo address in use >&2; exit 1"): "start the naive server: exit status 1: address in use",
	} {
		env := map[string]string{"DEMO_DATA_DIR": pgtest.DataDir(t), "NAIVE_PROGRAM": program}
		for _, name := range []string{
			"HTTP_ADDR", "OPERATOR_ADDR", "MOCKPSP_ADDR", "RECONCILER_ADDR", "NAIVE_ADDR",
		} {
			env[name] = heldport.Address(t)
		}
		err := run(t.Context(), nil, func(name string) string { return env[name] }, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the demo ends with %v, want %q", program, err, want)
		}
	}
}

func TestShortDemoHasSettingsThatFitEachOther(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"1": "40s", "0": "48h0m0s", "": "48h0m0s"} {
		s, err := load(func(name string) string { return map[string]string{"SHORT": value}[name] })
		if err != nil {
			t.Fatalf("SHORT=%s: %v", value, err)
		}
		if s.api.Retention.String() != want || s.reconciler.Retention != s.api.Retention {
			t.Errorf("SHORT=%s: keys are kept for %s and %s, want %s", value, s.api.Retention, s.reconciler.Retention,
				want)
		}
	}
	_, err := load(func(name string) string { return map[string]string{"SHORT": "perhaps"}[name] })
	if err == nil || !strings.Contains(err.Error(), `SHORT is "perhaps", must be true or false`) {
		t.Errorf("SHORT=perhaps: %v", err)
	}
}

func TestNoticeNamesThePlantedBug(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "demo")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false",
		"-ldflags", "-X 'payonce/demo/supervisor.planted=a-name: What is wrong.'", "-o", program, "../../cmd/demo")
	if testing.Short() {
		t.Skip("long: it links the demo")
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the demo: %v\n%s", err, out)
	}
	operator := heldport.Address(t)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(cmd.Environ(), "DEMO_DATA_DIR="+pgtest.DataDir(t), "HTTP_ADDR="+heldport.Address(t),
		"OPERATOR_ADDR="+operator, "MOCKPSP_ADDR="+heldport.Address(t), "RECONCILER_ADDR="+heldport.Address(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	said := ""
	for buffer := make([]byte, 4096); !strings.Contains(said, "API keys"); {
		n, err := out.Read(buffer)
		said += string(buffer[:n])
		if err != nil {
			t.Fatalf("start the demo: %v\n%s", err, said)
		}
	}
	const want = "A bug is planted in this demo, a-name: What is wrong."
	if page := ask(t, http.MethodGet, operator, "/demo/", "", nil).body; !strings.Contains(said, want) ||
		!strings.Contains(page, want) {
		t.Errorf("banner or page do not say %q:\n%s\n%s", want, said, page)
	}
}
