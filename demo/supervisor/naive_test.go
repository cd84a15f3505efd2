package supervisor

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"payonce/demo/embeddedpg"
	"payonce/test/heldport"
	"payonce/test/pgtest"
)

// withNaive builds step 01 of the course, and gives the settings for a demo with it.
func withNaive(t *testing.T) (settings []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "naive")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./steps/01")
	build.Dir = filepath.Join("..", "..", "course")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the naive server: %v\n%s", err, out)
	}
	return []string{"NAIVE_PROGRAM=" + program, "NAIVE_ADDR=" + heldport.Address(t)}
}

const (
	readmePicture = "../../docs/charged_once.svg"
	// notPainted are the times of a picture, which are others in each run.
	notPainted = `<text class="time".*?</text>|<title>.*?</title>`
)

// The four fates at both servers, in both dialects. Nobody is told of the naive server's charges. What the README shows
// is what the demo draws.
func TestComparedServersChargeTwiceAndOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it builds the naive server, and plays eight payments at two servers")
	}
	for _, psp := range []string{"native", "stripe"} {
		t.Run(psp, func(t *testing.T) {
			t.Parallel()
			settings := withNaive(t)
			if psp == "stripe" {
				settings = append(settings, "PSP=stripe")
			}
			d := startDemo(t, pgtest.MigratedDir(t), settings...)
			await(t, d, running("naive server", "0"))
			for _, fate := range []string{"twice", "kill", "late", "lost"} {
				press(t, d, "compare", "fate="+fate)
				panel := await(t, d, `aria-label="A naive server">(.*?)</section>.*?`+
					`aria-label="Payonce">(.*?)</section>\s*</div>\s*<p class="soft">This is seen`)
				if !strings.Contains(panel[1], "Charged twice") || !strings.Contains(panel[2], "Charged once") {
					t.Errorf("%s: %s", fate, panel[0])
				}
				if killed := strings.Contains(panel[0], "</b> killed"); killed != (fate == "kill") {
					t.Errorf("%s: killed is %t: %s", fate, killed, panel[0])
				}
			}
			open := ask(t, http.MethodGet, d.operator, "/operator/dead-letters?status=open", "",
				map[string]string{"Authorization": "Bearer demo-operator-key"})
			if !strings.Contains(open.body, `"data":[]`) {
				t.Errorf("open dead letters: %s", open.body)
			}
			if psp == "native" {
				comparePicture(t, ask(t, http.MethodGet, d.operator, "/demo/compared.svg", "", nil).body)
			}
		})
	}
}

// comparePicture holds the README's picture against the one of the fate that was played last.
func comparePicture(t *testing.T, drawn string) {
	t.Helper()
	if *update {
		write(t, readmePicture, drawn)
	}
	shown, err := os.ReadFile(readmePicture)
	if err != nil {
		t.Fatal(err)
	}
	times := regexp.MustCompile(notPainted)
	if times.ReplaceAllString(drawn, "") != times.ReplaceAllString(string(shown), "") {
		t.Errorf("%s is not what the demo draws now; -update writes it:\n%s", readmePicture, drawn)
	}
}

// What the demo shows beside Payonce must not end the demo, and is not compared with.
func TestNaiveServerThatCannotServeStaysAway(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a demo, and five starts of what fails")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t), "NAIVE_PROGRAM="+script(t, "exit 1"), "NAIVE_ADDR="+heldport.Address(t))
	press(t, d, "compare", "fate=lost")
	await(t, d, "not sent: the naive server does not run")
	if res := sendOnce(t, d.public, survivor, "pm_ok"); res.status != http.StatusCreated {
		t.Errorf("the API answers %d: %s", res.status, res.body)
	}
}

// Nor must what it cannot have: a port, or a database that is not the demo's own.
func TestNaiveServerStaysAwayWithoutItsPortOrAnOwnDatabase(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	log := slog.New(slog.DiscardHandler)
	own := demoOnly{NaiveProgram: "naive", NaiveAddr: taken.Listener.Addr().String()}
	c, why := newNaive(t.Context(), settings{own: own}, &database{server: &embeddedpg.Server{}}, log)
	if c != nil || !strings.Contains(why, own.NaiveAddr+" is taken") {
		t.Errorf("its port is taken, and why it stays away is %q", why)
	}
	own.NaiveAddr = heldport.Address(t)
	c, why = newNaive(t.Context(), settings{own: own}, &database{url: "postgres://somebody"}, log)
	if c != nil || !strings.Contains(why, "DATABASE_URL names another one") {
		t.Errorf("it is given the database of somebody else, or %q", why)
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
