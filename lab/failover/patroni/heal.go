package patroni

import (
	"context"
	"fmt"
	"time"

	"payonce/lab/world"
)

// healLimit bounds the start of the cluster, and the way back to good order.
const healLimit = 2 * time.Minute

// Heal undoes what has happened to the nodes, and returns when each commit waits for a standby and a third one follows.
//
// A node that was paused does not go on: a watchdog resets its machine before another one is promoted. Without that,
// Patroni 3.0 may take the lock back, and what the new primary has acknowledged in between is lost.
func (c *Cluster) Heal(ctx context.Context) error {
	c.etcd.Resume()
	for i, n := range c.nodes {
		if n.paused {
			n.paused = false
			c.KillNode(i)
		}
		if n.Running() {
			continue
		}
		if err := n.Start(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	var roles [size]int
	err := world.Until(ctx, askEvery, func() (bool, error) {
		roles = [size]int{}
		for i := range c.nodes {
			for kind, check := range []string{"primary", "synchronous", "asynchronous"} {
				if c.is(ctx, i, check) {
					roles[kind]++
				}
			}
		}
		return roles == [size]int{1, 1, 1}, nil
	})
	if err != nil {
		return fmt.Errorf("await good order: there are %d primaries, %d standbys that commits wait for, %d others: %w",
			roles[0], roles[1], roles[2], err)
	}
	return nil
}
