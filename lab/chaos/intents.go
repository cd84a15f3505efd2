package main

import (
	"context"
	"fmt"

	"payonce/lab/invariants"
)

// notes counts what owners and lookups have written about a PSP that has cancelled, waits, or does not take a request.
func notes(table string) string {
	return "SELECT actor || ': ' || reason, count(*) FROM " + table + ` WHERE actor IN ('owner', 'lookup')
		AND (reason LIKE 'the PSP has cancelled it%' OR reason LIKE 'the PSP waits: %' OR reason LIKE 'PSP answered %' OR reason LIKE 'the PSP''s object%') GROUP BY 1`
}

// intentFacts counts the PSP's intents by how they have ended, and those whose id was never stored here.
func (r *trial) intentFacts(ctx context.Context, e invariants.Evidence) error {
	all, err := invariants.Intents(ctx, e)
	if err != nil || len(all) == 0 {
		return err
	}
	rows, err := r.stage.world.DB.Query(ctx, "SELECT object_id FROM lab.remembered_objects")
	if err != nil {
		return err
	}
	stored := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		stored[id] = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, i := range all {
		r.stage.tally.One("intent", fmt.Sprintf("%s %s", i.Method, i.Status))
		switch {
		case stored[i.ID]:
		case i.Status == "canceled":
			r.stage.tally.One("intent", "never stored, and canceled")
		default:
			r.stage.tally.One("intent", "never stored")
		}
	}
	return nil
}
