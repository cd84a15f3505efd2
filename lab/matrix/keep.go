package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lookLimit bounds looking at a world that has failed.
const lookLimit = 5 * time.Second

// remains is what the database says of a failed cell.
const remains = `SELECT coalesce(jsonb_pretty(jsonb_build_object(
	'keys', (SELECT jsonb_agg(to_jsonb(k) - 'fingerprint' - 'response_body') FROM idempotency_keys AS k),
	'timeline', (SELECT jsonb_agg(to_jsonb(e) ORDER BY e.id) FROM idempotency_key_events AS e),
	'payments', (SELECT jsonb_agg(to_jsonb(p)) FROM payments AS p),
	'refunds', (SELECT jsonb_agg(to_jsonb(r)) FROM refunds AS r),
	'dead letters', (SELECT jsonb_agg(to_jsonb(d)) FROM dead_letters AS d),
	'decisions', (SELECT jsonb_agg(to_jsonb(a)) FROM operator_actions AS a),
	'webhooks', (SELECT jsonb_agg(to_jsonb(w) - 'body') FROM webhook_events AS w),
	'jobs', (SELECT jsonb_agg(jsonb_build_object('id', j.id, 'kind', j.kind, 'state', j.state, 'attempt', j.attempt, 'args', j.args,
		'attempted_at', j.attempted_at, 'errors', j.errors)) FROM river_job AS j WHERE j.kind NOT IN ('sweep', 'claim', 'scan', 'prune')))), '')`

// keep writes what is left of a failed cell into a directory: its database, its history, the logs of its processes and
// the PSP's ledger. What an earlier run with the same seed has left there goes.
func (s *stage) keep(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), lookLimit)
	defer cancel()
	logs := filepath.Join(dir, "logs")
	var database string
	err := s.w.DB.QueryRow(ctx, remains).Scan(&database)
	return dir, errors.Join(err,
		os.WriteFile(filepath.Join(dir, "database.json"), []byte(database), 0o600),
		s.history.Close(),
		os.WriteFile(filepath.Join(dir, "history.jsonl"), s.recorded.Bytes(), 0o600),
		os.RemoveAll(logs), os.CopyFS(logs, os.DirFS(s.dir())))
}

// dir is where the world keeps its files.
func (s *stage) dir() string { return filepath.Dir(s.w.PSP.Log) }

// state is where the keys stand, in a line.
func (s *stage) state() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), lookLimit)
	defer cancel()
	var line string
	err := s.w.DB.QueryRow(ctx, `SELECT coalesce(string_agg(format('%s is %s (attempt %s, generation %s)', key, status, attempt, generation), '; '), 'no key')
		FROM idempotency_keys`).Scan(&line)
	if err != nil {
		return fmt.Sprintf("its state could not be read: %v", err)
	}
	return line
}
