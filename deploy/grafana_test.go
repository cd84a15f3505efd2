package deploy_test

import (
	"path"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"
)

// monitoring is the part of compose.yaml that Grafana needs.
type monitoring struct {
	Services map[string]struct {
		Image    string   `yaml:"image"`
		Profiles []string `yaml:"profiles"`
		Ports    []string `yaml:"ports"`
		Networks []string `yaml:"networks"`
		Configs  []struct {
			Source string `yaml:"source"`
			Target string `yaml:"target"`
		} `yaml:"configs"`
	} `yaml:"services"`
	Configs map[string]struct {
		File string `yaml:"file"`
	} `yaml:"configs"`
}

// mounted gives the files that Grafana has, by their path in the container. Each is a file of this directory.
func mounted(t *testing.T) (compose monitoring, byTarget map[string]string) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "../compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	byTarget = map[string]string{}
	for _, config := range compose.Services["grafana"].Configs {
		file, ok := strings.CutPrefix(compose.Configs[config.Source].File, "./deploy/")
		if !ok {
			t.Fatalf("the config %q is the file %q", config.Source, compose.Configs[config.Source].File)
		}
		byTarget[config.Target] = file
	}
	return compose, byTarget
}

const provisioning = "/etc/grafana/provisioning/"

func TestGrafanaIsProvisionedWithOurPrometheusAndDashboard(t *testing.T) {
	t.Parallel()
	compose, files := mounted(t)
	var sources struct {
		Version int `yaml:"apiVersion"`
		Sources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
			Editable                     bool
		} `yaml:"datasources"`
	}
	readYAML(t, files[provisioning+"datasources/payonce.yaml"], &sources)
	if len(sources.Sources) != 1 || sources.Sources[0].Type != "prometheus" || !sources.Sources[0].IsDefault {
		t.Fatalf("the data sources are %+v", sources)
	}
	source := sources.Sources[0]
	prometheus := compose.Services["prometheus"]
	port := path.Base(strings.ReplaceAll(prometheus.Ports[0], ":", "/"))
	if source.URL != "http://prometheus:"+port ||
		prometheus.Networks[0] != compose.Services["grafana"].Networks[0] ||
		prometheus.Profiles[0] != compose.Services["grafana"].Profiles[0] {
		t.Errorf("Grafana asks %s, Prometheus is %+v", source.URL, prometheus)
	}

	var providers struct {
		Version   int `yaml:"apiVersion"`
		Providers []struct {
			Name, Type     string
			AllowUIUpdates bool `yaml:"allowUiUpdates"`
			Options        struct{ Path string }
		}
	}
	readYAML(t, files[provisioning+"dashboards/payonce.yaml"], &providers)
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" {
		t.Fatalf("the providers are %+v", providers)
	}
	if shown := files[providers.Providers[0].Options.Path+"/payonce.json"]; shown != dashboardFile {
		t.Fatalf("the dashboard is %q in %v", shown, files)
	}

	// The panels ask the variable, and the variable begins with our data source.
	var dashboard struct {
		Templating struct {
			List []struct {
				Name, Type, Query string
				Current           struct{ Text, Value string }
			}
		}
		Panels []struct {
			Title, Type string
			Datasource  struct{ Type, UID string }
		}
	}
	raw := []byte(read(t, dashboardFile))
	if err := json.Unmarshal(raw, &dashboard, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if v := dashboard.Templating.List[0]; v.Type != "datasource" || v.Query != source.Type ||
		v.Current.Value != source.UID || v.Current.Text != source.Name {
		t.Errorf("the variable is %+v, the data source %+v", v, source)
	}
	for _, p := range dashboard.Panels {
		if p.Type != "row" && p.Datasource.UID != "${"+dashboard.Templating.List[0].Name+"}" {
			t.Errorf("panel %q asks %q", p.Title, p.Datasource.UID)
		}
	}
}
