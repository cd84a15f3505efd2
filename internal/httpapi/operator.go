package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyLimit bounds one readiness check.
const readyLimit = 2 * time.Second

// Operator is the handler of the operator's listener: /livez looks at the process only, /readyz runs the checks, each
// under its name.
func Operator(metrics prometheus.Gatherer, checks map[string]func(context.Context) error) http.Handler {
	r := chi.NewRouter()
	r.Get("/livez", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	})
	r.Get("/readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, checks) })
	r.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return r
}

func ready(w http.ResponseWriter, r *http.Request, checks map[string]func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
	defer cancel()
	status := http.StatusOK
	report := struct {
		Ready  bool              `json:"ready"`
		Checks map[string]string `json:"checks"`
	}{Ready: true, Checks: map[string]string{}}
	for name, check := range checks {
		report.Checks[name] = "ok"
		if err := check(ctx); err != nil {
			report.Checks[name] = err.Error()
			report.Ready, status = false, http.StatusServiceUnavailable
		}
	}
	body, err := json.Marshal(report, json.Deterministic(true))
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	write(w, status, jsonType, append(body, '\n'))
}
