// Package deploy_test reads what operators go by, and holds it against the program: the alerts and their runbooks, the
// dashboard, and the tables of the documentation. It owns no code that runs anywhere. What must hold: every alert has a
// runbook and every runbook an alert; no rule and no panel asks for a metric or a label that nobody registers; no table
// names a setting or a kind that does not exist, or leaves one out. It doesn't know whether an expression is a good
// idea.
package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

const rulesFile = "prometheus/payonce.rules.yml"

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	readYAML(t, rulesFile, &file)
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// readYAML refuses members that the target does not have: a misspelt "for" would be no error to anybody else.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, name)))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const runbooks = "../docs/runbooks"

func TestEveryAlertSaysWhatItIsAndWhereToRead(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if seen[a.Alert] || !strings.HasPrefix(a.Alert, "Payonce") {
			t.Errorf("%q is no name, or there twice", a.Alert)
		}
		seen[a.Alert] = true
		if severity := a.Labels["severity"]; severity != "page" && severity != "ticket" {
			t.Errorf("%s: severity is %q, must be page or ticket", a.Alert, severity)
		}
		for _, name := range []string{"summary", "description"} {
			if strings.TrimSpace(a.Annotations[name]) == "" {
				t.Errorf("%s has no %s", a.Alert, name)
			}
		}
		if want := "docs/runbooks/" + a.Alert + ".md"; a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, must be %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		if a.For != "" && !regexp.MustCompile(`^[1-9][0-9]*[mh]$`).MatchString(a.For) {
			t.Errorf("%s: for is %q, must be such as 5m", a.Alert, a.For)
		}
		if opened, closed := strings.Count(a.Expr, "("), strings.Count(a.Expr, ")"); opened != closed || a.Expr == "" {
			t.Errorf("%s: %d brackets are opened and %d closed", a.Alert, opened, closed)
		}
	}
}

func TestEveryAlertHasARunbookAndEveryRunbookAnAlert(t *testing.T) {
	t.Parallel()
	var named, written []string
	for _, a := range alerts(t) {
		named = append(named, a.Alert)
	}
	files, err := filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".md"); name != "README" {
			written = append(written, name)
		}
	}
	slices.Sort(named)
	slices.Sort(written)
	if !slices.Equal(named, written) {
		t.Errorf("the alerts are\n%s\nthe runbooks\n%s", strings.Join(named, "\n"), strings.Join(written, "\n"))
	}
	index := read(t, runbooks+"/README.md")
	for _, a := range alerts(t) {
		if row := "| [" + a.Alert + "](" + a.Alert + ".md) | " + a.Labels["severity"] +
			" |"; !strings.Contains(index, row) {
			t.Errorf("the list of runbooks has no row %s", row)
		}
	}
}

func TestEveryRunbookSaysWhatToLookAtAndWhatNeverToDo(t *testing.T) {
	t.Parallel()
	for _, a := range alerts(t) {
		page := read(t, runbooks+"/"+a.Alert+".md")
		at := 0
		for _, heading := range []string{"# " + a.Alert + "\n", "\n## What it means for money\n", "\n## Look\n",
			"\n## Do\n", "\n## Never\n"} {
			next := strings.Index(page[at:], heading)
			if next < 0 {
				t.Errorf("%s has no %q, or not in its place", a.Alert, strings.TrimSpace(heading))
				break
			}
			at += next
		}
		if !strings.Contains(page, "\n```") {
			t.Errorf("%s shows no command", a.Alert)
		}
	}
}

func TestPrometheusReadsTheRulesAndAsksTheProcesses(t *testing.T) {
	t.Parallel()
	var file struct {
		Global        map[string]string `yaml:"global"`
		RuleFiles     []string          `yaml:"rule_files"`
		ScrapeConfigs []struct {
			Job    string `yaml:"job_name"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "prometheus/prometheus.yml", &file)
	for _, name := range file.RuleFiles {
		if _, err := os.Stat("prometheus/" + name); err != nil {
			t.Error(err)
		}
	}
	jobs := map[string]string{}
	for _, job := range file.ScrapeConfigs {
		for _, static := range job.Static {
			jobs[job.Job] = strings.Join(static.Targets, " ")
		}
	}
	if jobs["payonce-api"] != "api:8081" || jobs["payonce-reconciler"] != "reconciler:8083" ||
		len(file.RuleFiles) == 0 {
		t.Errorf("rules %v, targets %v", file.RuleFiles, jobs)
	}
}
