package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

const usage = `One idempotent payment as a DBOS workflow, to compare Payonce with.

Usage: dbos

Serves POST /payments and GET /livez until SIGINT or SIGTERM. /livez answers once payments are accepted.

Settings, as environment variables with their defaults:
  DATABASE_URL                   PostgreSQL, as a URL or keyword string; best a database of its own
  ADDR          127.0.0.1:8090   address to listen on
  DB_MAX_CONNS  16               size of the one pool that DBOS and the application share; at least 2
  DB_STEPS      transaction      how reserve and complete write: "transaction" (one commit with DBOS's checkpoint) or "step"
                                 (a commit of their own, checkpoint after it)
  PSP_MS        0                milliseconds that the PSP stub takes for a charge, up to 10000
`

// limits keep a typing error from becoming a benchmark's result.
const (
	minConns = 2 // one is DBOS's listener's for good
	maxConns = 1000
	maxPSPMs = 10_000
)

type settings struct {
	databaseURL string
	addr        string
	maxConns    int32
	plainSteps  bool
	pspDelay    time.Duration
}

func readSettings(getenv func(string) string) (settings, error) {
	s := settings{databaseURL: getenv("DATABASE_URL"), addr: cmp.Or(getenv("ADDR"), "127.0.0.1:8090")}
	var missing, badSteps error
	if s.databaseURL == "" {
		missing = errors.New("DATABASE_URL is not set, such as postgres://user:password@host:5432/dbos")
	}
	switch steps := getenv("DB_STEPS"); steps {
	case "", "transaction":
	case "step":
		s.plainSteps = true
	default:
		badSteps = fmt.Errorf("DB_STEPS is %q, must be transaction or step", steps)
	}
	conns, badConns := number(getenv, "DB_MAX_CONNS", 16, minConns, maxConns)
	ms, badMs := number(getenv, "PSP_MS", 0, 0, maxPSPMs)
	s.maxConns, s.pspDelay = conns, time.Duration(ms)*time.Millisecond
	return s, errors.Join(missing, badSteps, badConns, badMs)
}

func number(getenv func(string) string, name string, fallback, low, high int32) (int32, error) {
	text := getenv(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < int64(low) || n > int64(high) {
		return 0, fmt.Errorf("%s is %q, must be a whole number from %d to %d", name, text, low, high)
	}
	return int32(n), nil
}
