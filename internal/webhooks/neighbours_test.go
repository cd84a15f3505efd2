package webhooks

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// results is what came of each event that is stored.
func (d *fixture) results() string {
	d.t.Helper()
	return d.text("SELECT string_agg(id || ' ' || coalesce(result, 'open'), ', ' ORDER BY id) FROM webhook_events")
}

// An event that is marked with the result of another is not processed, and one that is opened again without need is
// processed twice.
func TestStepOfAnEventMovesNoOtherEvent(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, id := range []string{"evt_0", "evt_1", "evt_2", "evt_3"} {
		d.receive(id)
	}
	for id, result := range map[string]string{"evt_0": "resolved", "evt_2": "ignored"} {
		if err := d.inbox.MarkProcessed(t.Context(), id, result); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.results(); got != "evt_0 resolved, evt_1 open, evt_2 ignored, evt_3 open" {
		t.Errorf("after two were processed, they are %s", got)
	}
	err := pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
		return ReopenTx(context.Background(), tx, "evt_2")
	})
	if got := d.results(); err != nil || got != "evt_0 resolved, evt_1 open, evt_2 open, evt_3 open" {
		t.Errorf("after one was opened again, they are %s, %v", got, err)
	}
	for id, processed := range map[string]bool{"evt_0": true, "evt_1": false, "evt_3": false} {
		if s, err := d.inbox.Load(t.Context(), id); err != nil || s.ID != id || s.Processed != processed {
			t.Errorf("asked for %s, it is %+v, %v", id, s, err)
		}
	}
}
