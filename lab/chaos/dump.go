package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
)

// maxDumped bounds how many names the rows are kept of.
const maxDumped = 150

// dump keeps the rows of the keys that violations are about, and of everything that is not at its end.
func (r *trial) dump(ctx context.Context) error {
	var names []string // among them keys, and the PSP's ids of refunds
	for _, v := range r.report.Violations {
		for word := range strings.FieldsSeq(v.Where) {
			if len(names) < maxDumped && !slices.Contains(names, word) {
				names = append(names, word)
			}
		}
	}
	rows := map[string][]map[string]any{}
	for name, sql := range map[string]string{
		"idempotency_keys":       "SELECT *, convert_from(response_body, 'UTF8') AS response FROM idempotency_keys WHERE key = ANY ($1) OR status IN ('in_progress', 'unknown')",
		"idempotency_key_events": "SELECT * FROM idempotency_key_events WHERE key = ANY ($1) ORDER BY id",
		"payments":               "SELECT * FROM payments WHERE idempotency_key = ANY ($1) OR status = 'processing'",
		"refunds":                "SELECT * FROM refunds WHERE idempotency_key = ANY ($1) OR psp_refund_id = ANY ($1) OR status = 'processing'",
		"dead_letters":           "SELECT * FROM dead_letters WHERE key = ANY ($1) OR status = 'open'",
		"river_job":              "SELECT * FROM river_job WHERE state <> 'completed' OR args ->> 'key' = ANY ($1)",
	} {
		found, err := r.stage.world.DB.Query(ctx, sql, names)
		if err != nil {
			return err
		}
		if rows[name], err = pgx.CollectRows(found, pgx.RowToMap); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(rows, json.Deterministic(true), jsontext.WithIndent(" "))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.stage.keep, "rows.json"), raw, 0o600)
}

// stuckJobs names the jobs that somebody has taken and not finished, and since when.
func (r *trial) stuckJobs(ctx context.Context) string {
	rows, err := r.stage.world.DB.Query(ctx, `SELECT format('job %s (%s) was taken %s ago by %s', id, kind,
		date_trunc('second', clock_timestamp() - attempted_at), attempted_by[array_upper(attempted_by, 1)])
		FROM river_job WHERE state = 'running' AND attempted_at < clock_timestamp() - interval '5 seconds' LIMIT 5`)
	if err != nil {
		return fmt.Sprint(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Sprint(err)
	}
	return strings.Join(lines, "; ")
}
