package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
)

// toldOf counts the refunds of others that are kept by who has told of them: a webhook, or, since all webhooks about
// one were lost, the scan or the statement. A native PSP writes down how each of its webhooks has ended.
func (r *trial) toldOf(ctx context.Context) error {
	if r.settings.stripe() {
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(r.stage.dir, r.stage.world.Name, "ledger.jsonl.webhooks"))
	if err != nil {
		return fmt.Errorf("read how webhooks have ended: %w", err)
	}
	told := toldBy(string(raw))
	rows, err := r.stage.world.DB.Query(ctx, "SELECT psp_refund_id FROM refunds WHERE origin = 'provider'")
	if err != nil {
		return err
	}
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		r.stage.tally.One("kept", "refund of theirs, "+told[id])
		return nil
	})
	return err
}

// toldBy says of each entry whether a webhook about it was delivered.
func toldBy(ends string) map[string]string {
	told := map[string]string{}
	for line := range strings.Lines(ends) {
		var webhook struct {
			EntryID string `json:"entryId"`
			End     string `json:"end"`
		}
		if json.Unmarshal([]byte(line), &webhook) != nil {
			continue // the PSP was killed while it wrote
		}
		if webhook.End == "delivered" {
			told[webhook.EntryID] = "by webhook"
		} else if told[webhook.EntryID] == "" {
			told[webhook.EntryID] = "never by webhook"
		}
	}
	return told
}
