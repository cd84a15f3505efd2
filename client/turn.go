package client

import "context"

// begin waits until no other call of this client works on the intent, and keeps others out until done is called. Two
// calls at a time would not know of each other's requests: one that is refused would store that the key is Unused,
// while the other one may have charged under it.
func (c *Client) begin(ctx context.Context, intent string) (done func(), err error) {
	for {
		done, other := c.tryBegin(intent)
		if other == nil {
			return done, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryBegin is begin without waiting. If another call works on the intent, done is nil, and other is closed when that
// call is done.
func (c *Client) tryBegin(intent string) (done func(), other <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, busy := c.busy[intent]; busy {
		return nil, other
	}
	mine := make(chan struct{})
	c.busy[intent] = mine
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.busy, intent)
		close(mine)
	}, nil
}

// bounded gives a call its patience if its context has no deadline.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.config.Patience)
}
