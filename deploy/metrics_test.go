package deploy_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/telemetry"
)

// registered collects what the program registers: each series by its name, with its labels.
type registered map[string][]string

var descForm = regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// Register implements prometheus.Registerer.
func (r registered) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 100)
	if c.Describe(descs); len(descs) == 0 { // It has figures that may be absent.
		prometheus.DescribeByCollect(c, descs)
	}
	close(descs)
	for d := range descs {
		match := descForm.FindStringSubmatch(d.String())
		if match == nil {
			continue // the Go runtime's own
		}
		var labels []string
		for label := range strings.SplitSeq(match[2], ",") {
			if label != "" {
				labels = append(labels, label)
			}
		}
		switch c.(type) {
		case *prometheus.HistogramVec, prometheus.Histogram:
			r[match[1]+"_bucket"], r[match[1]+"_count"], r[match[1]+"_sum"] = append(slices.Clone(labels), "le"),
				labels, labels
		default:
			r[match[1]] = labels
		}
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r registered) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = r.Register(c)
	}
}

// Unregister implements prometheus.Registerer.
func (r registered) Unregister(prometheus.Collector) bool { return false }

func metrics(t *testing.T) registered {
	t.Helper()
	r := registered{}
	telemetry.NewMetrics(r)
	telemetry.RegisterGauges(r, telemetry.Gauges{})
	telemetry.RegisterBacklog(r, time.Now, func(context.Context) (telemetry.Backlog, error) {
		one := map[string]int64{"any": 1}
		return telemetry.Backlog{Keys: one, DeadLettersOpen: one, JobsByState: one}, nil
	})
	if len(r) < 20 || r["payonce_fenced_writes_total"] != nil ||
		!slices.Equal(r["payonce_dead_letters_open"], []string{"kind"}) {
		t.Fatalf("the registry was misread: %v", r)
	}
	return r
}

// A metric of ours with its matchers, and the labels that an aggregation keeps.
var (
	selectorForm = regexp.MustCompile(`(payonce_[a-z_]+)(?:\{((?:[^}"]|"[^"]*")*)\})?`)
	matcherForm  = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	byForm       = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
)

// misnamed lists what an expression asks for and the program does not have.
func misnamed(expr string, have registered) []string {
	var wrong, labels []string
	for _, match := range selectorForm.FindAllStringSubmatch(expr, -1) {
		known, ok := have[match[1]]
		if !ok {
			wrong = append(wrong, "metric "+match[1])
		}
		labels = append(labels, known...)
		for _, matcher := range matcherForm.FindAllStringSubmatch(match[2], -1) {
			if ok && !slices.Contains(known, matcher[1]) {
				wrong = append(wrong, "label "+matcher[1]+" of "+match[1])
			}
		}
	}
	labels = append(labels, "job", "instance")
	for _, match := range byForm.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(match[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(labels, label) {
				wrong = append(wrong, "label "+label)
			}
		}
	}
	return wrong
}

func TestMisnamedMetricsAndLabelsAreFound(t *testing.T) {
	t.Parallel()
	have := metrics(t)
	for expr, want := range map[string]int{
		`sum(rate(payonce_webhooks_total{result="stored"}[5m]))`:                   0,
		`payonce_http_request_duration_seconds_count{route="/a/{b}",status="201"}`: 0,
		`payonce_http_request_duration_seconds_count{route="/a/{b}",state="201"}`:  1,
		`sum by (kind) (payonce_webhooks_total)`:                                   1,
		`payonce_webhook_total`:                                                    1,
		// a histogram has no such series
		`payonce_webhook_lag_seconds`: 1,
		`histogram_quantile(0.9, sum by (le) (rate(payonce_webhook_lag_seconds_bucket[5m])))`: 0,
		`payonce_jobs{kind="scan"}`: 1,
	} {
		if got := misnamed(expr, have); len(got) != want {
			t.Errorf("%s: found %v, want %d", expr, got, want)
		}
	}
}

func TestRulesAskForWhatIsMeasured(t *testing.T) {
	t.Parallel()
	have := metrics(t)
	for _, a := range alerts(t) {
		if !strings.Contains(a.Expr, "payonce_") && !strings.Contains(a.Expr, "up{") {
			t.Errorf("%s asks for nothing of ours", a.Alert)
		}
		for _, wrong := range misnamed(a.Expr, have) {
			t.Errorf("%s asks for a %s that there is not", a.Alert, wrong)
		}
	}
}

// fromTheStart are the metrics that a process has before its first request, with the values of the first label that
// their series have.
func fromTheStart(t *testing.T) map[string][]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	telemetry.NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	begun := map[string][]string{}
	for _, family := range families {
		begun[family.GetName()] = nil
		for _, series := range family.GetMetric() {
			if labels := series.GetLabel(); len(labels) > 0 {
				begun[family.GetName()] = append(begun[family.GetName()], labels[0].GetValue())
			}
		}
	}
	return begun
}

// An outcome that no request has would make an alert that never fires. The counters of all outcomes are there from the
// start, so they can be read here.
func TestRulesAskForOutcomesOfReservationsThatThereAre(t *testing.T) {
	t.Parallel()
	const name = "payonce_idempotency_reserve_total"
	known := fromTheStart(t)[name]
	asked := 0
	selector := regexp.MustCompile(name + `\{outcome="([^"]*)"`)
	for _, match := range selector.FindAllStringSubmatch(read(t, rulesFile), -1) {
		asked++
		if !slices.Contains(known, match[1]) {
			t.Errorf("an alert asks for the outcome %q, there are %v", match[1], known)
		}
	}
	if asked == 0 {
		t.Error("no alert asks for the outcome of a reservation")
	}
}

const dashboardFile = "grafana/payonce.json"

// A panel of Grafana's, as far as it matters here. Grafana adds members with every version.
type panel struct {
	Title   string `json:"title"`
	Type    string `json:"type"`
	About   string `json:"description"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct {
		Title  string  `json:"title"`
		UID    string  `json:"uid"`
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.Title == "" || dashboard.UID == "" || len(dashboard.Panels) == 0 {
		t.Errorf("title %q, uid %q, %d panels", dashboard.Title, dashboard.UID, len(dashboard.Panels))
	}
	return dashboard.Panels
}

// A series that was not there before is shown with its whole value. To a Prometheus that has just been started, each is
// such a series.
func TestPanelsSayWhatANewPrometheusShows(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, " unless ") {
				continue
			}
			if found++; !strings.Contains(p.About, "of a new Prometheus") {
				t.Errorf("%s does not say it: %q", p.Title, p.About)
			}
		}
	}
	if found == 0 {
		t.Error("there is no such panel")
	}
}

func TestDashboardAsksForWhatIsMeasured(t *testing.T) {
	t.Parallel()
	have := metrics(t)
	for _, p := range panels(t) {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, wrong := range misnamed(target.Expr, have) {
				t.Errorf("panel %q asks for a %s that there is not", p.Title, wrong)
			}
		}
	}
}

var increaseForm = regexp.MustCompile(`increase\((payonce_[a-z_]+)`)

// A series that begins when something happens for the first time begins at 1. To Prometheus, nothing has increased. So
// a panel that counts such events counts series that are new, too.
func TestPanelsShowTheFirstEventOfItsKind(t *testing.T) {
	t.Parallel()
	begun := fromTheStart(t)
	late := 0
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			for _, match := range increaseForm.FindAllStringSubmatch(target.Expr, -1) {
				if _, there := begun[strings.TrimSuffix(match[1], "_count")]; there {
					continue
				}
				late++
				if !strings.Contains(target.Expr, " unless "+match[1]) {
					t.Errorf("panel %q does not show the first %s", p.Title, match[1])
				}
			}
		}
	}
	if late == 0 {
		t.Error("no panel counts series that begin late")
	}
}
