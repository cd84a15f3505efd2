package world

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// toldEvery is the pause between two looks.
const toldEvery = 250 * time.Millisecond

// AwaitTold waits until the mock PSP at the address has sent the webhooks that it is going to send, or has had its time
// for that, which ends with ctx: one that came later would disturb the calm in which everything is judged.
func AwaitTold(ctx context.Context, address string) {
	client := NewClient()
	defer client.Close()
	tick := time.NewTicker(toldEvery)
	defer tick.Stop()
	for {
		var told struct {
			Pending int `json:"pending"`
			Dialect struct {
				Pending int `json:"pending"`
			} `json:"dialect"`
		}
		a, err := client.Do(ctx, address, Request{Method: http.MethodGet, Path: "/_webhooks"})
		if err == nil && json.Unmarshal(a.Body, &told) == nil && a.Status == http.StatusOK &&
			told.Pending+told.Dialect.Pending == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
