package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"payonce/internal/app"
	"payonce/internal/config"
)

// object is what this test reads of a manifest. deploy/composecheck decodes each into Kubernetes' own types, and holds
// the hardening; here they are held against the programs.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct{ Template template }
}

type template struct {
	Spec struct {
		Grace      int `yaml:"terminationGracePeriodSeconds"`
		Containers []container
	}
}

type container struct {
	Command, Args []string
	Env           []variable
	EnvFrom       []struct {
		ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
	} `yaml:"envFrom"`
	Ports     []port
	Startup   probe `yaml:"startupProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
}

type port struct {
	Name          string
	ContainerPort string `yaml:"containerPort"`
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		SecretKeyRef struct {
			Name, Key string
			Optional  bool
		} `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

const manifests = "kubernetes"

func objects(t *testing.T) map[string]object {
	t.Helper()
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]object{}
	for _, file := range files {
		for d := yaml.NewDecoder(strings.NewReader(read(t, file))); ; {
			var o object
			if err := d.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[o.Kind+" "+o.Metadata.Name] = o
		}
	}
	return all
}

// process is the one container of a pod, with the environment that it is given. Secrets are made up.
type process struct {
	container
	grace time.Duration
	env   map[string]string
}

// madeUp are values of secrets that the programs take.
var madeUp = map[string]string{
	"DATABASE_URL": "postgres://127.0.0.1:1/none", "STRIPE_SECRET": "sk_live_made_up",
	"STRIPE_WEBHOOK_SECRETS": "whsec_0123456789abcdef", "CONSOLE_SECRET": strings.Repeat("0123456789abcdef", 2),
}

func processOf(t *testing.T, name string) process {
	t.Helper()
	all := objects(t)
	pod := all[name].Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("%s has %d containers", name, len(pod.Containers))
	}
	p := process{pod.Containers[0], time.Duration(pod.Grace) * time.Second, map[string]string{}}
	for _, from := range p.EnvFrom {
		for name, value := range all["ConfigMap "+from.ConfigMapRef.Name].Data {
			p.env[name] = value
		}
	}
	for _, v := range p.Env {
		p.env[v.Name] = v.Value
		if from := v.ValueFrom.SecretKeyRef; from.Key != "" {
			p.env[v.Name] = madeUp[v.Name]
			if from.Key != v.Name {
				t.Errorf("%s takes %s from the key %s", name, v.Name, from.Key)
			}
			if madeUp[v.Name] == "" != from.Optional {
				t.Errorf("%s: is %s optional?", name, v.Name)
			}
		}
	}
	return p
}

func (p process) getenv(name string) string { return p.env[name] }

var settingName = regexp.MustCompile(`(?m)^  ([A-Z][A-Z_]+) `)

// settingsOf are the names of the settings that a program has.
func settingsOf(t *testing.T, of ...any) []string {
	t.Helper()
	var help bytes.Buffer
	if err := config.Describe(&help, nil, of...); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range settingName.FindAllStringSubmatch(help.String(), -1) {
		names = append(names, match[1])
	}
	if len(names) < 10 {
		t.Fatalf("the settings were misread: %v", names)
	}
	return names
}

// secretName is how the name of a setting tells that its value is a secret.
var secretName = regexp.MustCompile(`SECRET|PASSWORD|^DATABASE_URL$`)

// strangeTo lists what a process is given and does not know, and the secrets that it knows and is not given.
func (p process) strangeTo(settings []string, needless ...string) []string {
	var found []string
	for name := range p.env {
		if !slices.Contains(settings, name) && name != "HTTPS_PROXY" { // that is net/http's
			found = append(found, name+" is no setting")
		}
	}
	for _, name := range settings {
		if _, given := p.env[name]; secretName.MatchString(name) && given == slices.Contains(needless, name) {
			found = append(found, name+" is a secret: given or not?")
		}
	}
	return found
}

func TestKubernetesGivesEachProcessItsSettings(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		settings []string
		needless []string
	}{
		"Deployment payonce-api": {settingsOf(t, config.API{}), nil},
		// It has no console.
		"Deployment payonce-reconciler": {settingsOf(t, config.Reconciler{}), []string{"CONSOLE_SECRET"}},
		"Job payonce-migrate": {settingsOf(t, config.API{}), []string{"CONSOLE_SECRET", "PSP_SECRET", "STRIPE_SECRET",
			"STRIPE_WEBHOOK_SECRETS", "WEBHOOK_SECRETS"}},
	} {
		if strange := processOf(t, name).strangeTo(of.settings, of.needless...); len(strange) > 0 {
			t.Errorf("%s: %v", name, strange)
		}
	}
}

func TestSettingsThatAreStrangeAreFound(t *testing.T) {
	t.Parallel()
	settings := settingsOf(t, config.Reconciler{})
	for what, change := range map[string]func(env map[string]string){
		"a setting of the API":        func(env map[string]string) { env["HTTP_ADDR"] = ":8080" },
		"a secret that is missing":    func(env map[string]string) { delete(env, "STRIPE_SECRET") },
		"a secret that it needs not":  func(env map[string]string) { env["CONSOLE_SECRET"] = "word" },
		"a database that is not said": func(env map[string]string) { delete(env, "DATABASE_URL") },
	} {
		p := processOf(t, "Deployment payonce-reconciler")
		change(p.env)
		if found := p.strangeTo(settings, "CONSOLE_SECRET"); len(found) != 1 {
			t.Errorf("%s: found %v", what, found)
		}
	}
}

// uncommented are the files with what is marked as yours and left out.
func uncommented(t *testing.T, file string) string {
	t.Helper()
	return regexp.MustCompile(`(?m)^( +)# ([A-Z_]+: |- to:|    - |  ports:)`).ReplaceAllString(read(t, file), "$1$2")
}

// A line without its # must be a setting, and the network must let packets through to what the setting names.
func TestWhatIsLeftOutOfKubernetesCanBePutIn(t *testing.T) {
	t.Parallel()
	var shared object
	_, settings, _ := strings.Cut(uncommented(t, manifests+"/namespace.yaml"), "\n---\n")
	if err := yaml.Unmarshal([]byte(settings), &shared); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"PSP_URL", "HTTPS_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if shared.Data[name] == "" {
			t.Errorf("%s is not offered", name)
		}
	}
	p := processOf(t, "Deployment payonce-reconciler")
	maps.Copy(p.env, shared.Data)
	if strange := p.strangeTo(settingsOf(t, config.Reconciler{}), "CONSOLE_SECRET"); len(strange) > 0 {
		t.Error(strange)
	}
	if _, err := config.LoadReconciler(p.getenv); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"HTTPS_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		to, err := url.Parse(shared.Data[name])
		if err != nil || !outTo(t, uncommented(t, manifests+"/network.yaml"))[to.Port()] {
			t.Errorf("no rule lets anybody out to %s: %v", shared.Data[name], err)
		}
	}
}

// outTo are the ports that the policies of a file let pods out to.
func outTo(t *testing.T, text string) map[string]bool {
	t.Helper()
	ports := map[string]bool{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var policy struct {
			Spec struct {
				Egress []struct {
					Ports []struct{ Port string }
				}
			}
		}
		if err := d.Decode(&policy); errors.Is(err, io.EOF) {
			return ports
		} else if err != nil {
			t.Fatal(err)
		}
		for _, rule := range policy.Spec.Egress {
			for _, each := range rule.Ports {
				ports[each.Port] = true
			}
		}
	}
}

// held says what is wrong with the time that a process has to end, and with the ports that it listens on.
func (p process) held(needs time.Duration, listens map[string]string) []string {
	var found []string
	if p.grace <= needs {
		found = append(found, "it may be killed after "+p.grace.String()+", and may need "+needs.String())
	}
	ports := map[string]string{}
	for _, each := range p.Ports {
		ports[each.Name] = each.ContainerPort
	}
	for name, address := range listens {
		host, number, err := net.SplitHostPort(address)
		if err != nil || host != "" || ports[name] != number {
			found = append(found, "it listens on "+address+", and its port "+name+" is "+ports[name])
		}
	}
	if len(ports) != len(listens) {
		found = append(found, "it has other ports than it listens on")
	}
	return found
}

// stopGrace is what jobs have that are cancelled because they have taken too long (internal/reconcile).
const stopGrace = 5 * time.Second

func TestKubernetesLetsEachProcessListenAndEnd(t *testing.T) {
	t.Parallel()
	p := processOf(t, "Deployment payonce-api")
	api, err := config.Load(p.getenv)
	if err := errors.Join(err, api.CheckProcess()); err != nil {
		t.Fatal(err)
	}
	needs := api.DrainDelay + api.DrainLimit
	listens := map[string]string{"http": api.HTTPAddr, "operator": api.OperatorAddr}
	if found := p.held(needs, listens); len(found) > 0 || api.DrainDelay == 0 {
		t.Errorf("api: %v; it drains after %s", found, api.DrainDelay)
	}
	r := processOf(t, "Deployment payonce-reconciler")
	reconciler, err := config.LoadReconciler(r.getenv)
	if err := errors.Join(err, reconciler.CheckProcess()); err != nil {
		t.Fatal(err)
	}
	if found := r.held(reconciler.StopLimit+stopGrace, map[string]string{"operator": reconciler.Addr}); len(found) > 0 {
		t.Errorf("reconciler: %v", found)
	}

	late, elsewhere, local := p, p, map[string]string{"http": api.HTTPAddr, "operator": "127.0.0.1:8081"}
	late.grace = needs
	elsewhere.Ports = []port{{"http", "8080"}, {"operator", "8082"}}
	for what, found := range map[string][]string{
		"killed at once": late.held(needs, listens), "another port": elsewhere.held(needs, listens),
		"on loopback": p.held(needs, local), "a port too many": p.held(needs, map[string]string{"http": api.HTTPAddr}),
	} {
		if len(found) != 1 {
			t.Errorf("%s: found %v", what, found)
		}
	}
}

// The probes are asked of the real handlers, without a database: a process lives, and is not ready.
func TestKubernetesAsksForPathsThatThereAre(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	p := processOf(t, "Deployment payonce-api")
	settings, err := config.Load(p.getenv)
	if err != nil {
		t.Fatal(err)
	}
	api, err := app.NewAPI(t.Context(), settings, log)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	asks := func(path string) int {
		answer := httptest.NewRecorder()
		api.Operator.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return answer.Code
	}
	if code := asks("/other"); code != http.StatusNotFound {
		t.Errorf("a path that there is not is answered %d", code)
	}
	for name, of := range map[string]process{"api": p, "reconciler": processOf(t, "Deployment payonce-reconciler")} {
		for what, want := range map[probe]int{
			of.Startup: http.StatusOK, of.Liveness: http.StatusOK, of.Readiness: http.StatusServiceUnavailable,
		} {
			if code := asks(what.HTTPGet.Path); code != want || what.HTTPGet.Port != "operator" {
				t.Errorf("%s: the probe of %s at %s is answered %d, want %d", name, what.HTTPGet.Path,
					what.HTTPGet.Port, code, want)
			}
		}
	}
}

// The commands are those that the programs have.
func TestKubernetesStartsWhatTheImageHas(t *testing.T) {
	t.Parallel()
	entrypoint := regexp.MustCompile(`(?m)^ENTRYPOINT \["(/\w+)"\]$`).FindStringSubmatch(read(t, "Dockerfile"))
	if entrypoint == nil {
		t.Fatal("the Dockerfile has no entrypoint")
	}
	for name, want := range map[string]string{
		"Deployment payonce-api": "/api serve", "Job payonce-migrate": "/api migrate",
		"Deployment payonce-reconciler": "/reconciler run",
	} {
		p := processOf(t, name)
		if len(p.Command) == 0 {
			p.Command = entrypoint[1:]
		}
		if got := strings.Join(slices.Concat(p.Command, p.Args), " "); got != want {
			t.Errorf("%s runs %q, want %q", name, got, want)
		}
	}
}
