package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const usage = `Idempotent payments the wrong way, to compare Payonce with. It charges twice: never deploy it.

Usage: naive

Serves the payments API until SIGINT or SIGTERM. Creates its tables in the schema "naive".

Settings, as environment variables with their defaults:
  DATABASE_URL                           PostgreSQL, as a URL or keyword string
  HTTP_ADDR      :8080                   address of the public API
  OPERATOR_ADDR  127.0.0.1:8081          address of /livez and /readyz
  PSP_URL        http://127.0.0.1:8082   the payment service provider
  PSP_SECRET                             our secret at the PSP
  PSP_TIMEOUT    8s                      longest time for a PSP request
  API_KEYS                               comma list of key=tenant, such as demo-acme-key=acme
`

type settings struct {
	databaseURL  string
	httpAddr     string
	operatorAddr string
	pspURL       string
	pspSecret    string
	pspTimeout   time.Duration
	apiKeys      map[string]string // tenant by key
}

// readSettings names everything that is wrong, and quotes no secret.
func readSettings(getenv func(string) string) (settings, error) {
	s := settings{
		databaseURL:  getenv("DATABASE_URL"),
		httpAddr:     cmp.Or(getenv("HTTP_ADDR"), ":8080"),
		operatorAddr: cmp.Or(getenv("OPERATOR_ADDR"), "127.0.0.1:8081"),
		pspURL:       strings.TrimRight(cmp.Or(getenv("PSP_URL"), "http://127.0.0.1:8082"), "/"),
		pspSecret:    getenv("PSP_SECRET"),
	}
	var wrong []error
	if s.databaseURL == "" {
		wrong = append(wrong, errors.New("DATABASE_URL is not set, such as postgres://user:password@host:5432/naive"))
	}
	if s.pspSecret == "" {
		wrong = append(wrong, errors.New("PSP_SECRET is not set"))
	}
	if u, err := url.Parse(s.pspURL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		wrong = append(wrong, errors.New("PSP_URL must be an http or https URL"))
	}
	var err error
	if s.pspTimeout, err = time.ParseDuration(cmp.Or(getenv("PSP_TIMEOUT"), "8s")); err != nil || s.pspTimeout <= 0 {
		wrong = append(wrong, fmt.Errorf("PSP_TIMEOUT is %q, must be a positive span of time such as 8s",
			getenv("PSP_TIMEOUT")))
	}
	if s.apiKeys, err = readAPIKeys(getenv("API_KEYS")); err != nil {
		wrong = append(wrong, err)
	}
	return s, errors.Join(wrong...)
}

func readAPIKeys(list string) (map[string]string, error) {
	keys := map[string]string{}
	for entry := range strings.SplitSeq(list, ",") {
		secret, tenant, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if secret == "" || tenant == "" {
			return nil, errors.New("API_KEYS must be a comma list of key=tenant, such as demo-acme-key=acme")
		}
		keys[secret] = tenant
	}
	return keys, nil
}
