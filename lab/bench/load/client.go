package load

import (
	"fmt"
	"strings"
	"time"
)

// client is one connection and what it counts. It belongs to one goroutine.
type client struct {
	run     *run
	address string
	wire    *wire // nil when the connection was lost and there is no other
	request *request
	tally   tally
}

// closed sends the next request when the answer to the one before has come.
func (c *client) closed() {
	for at := c.run.elapsed(); c.wire != nil && c.run.takes(at); {
		c.renew(at)
		status := c.ask()
		now := c.run.elapsed()
		c.count(status, at, now)
		at = now
	}
}

// slack is how late our own clock may be: what it hands over just before the end is still sent.
const slack = 10 * time.Millisecond

// open sends what has fallen due, as soon as it can. Latency counts from when it was due.
func (c *client) open() {
	for due := range c.run.due {
		now := c.run.elapsed()
		if now >= c.run.end+slack || c.run.ctx.Err() != nil {
			c.run.miss(due)
			continue
		}
		c.renew(now)
		status := c.ask()
		c.count(status, due, c.run.elapsed())
		if c.wire == nil {
			return
		}
	}
}

func (c *client) renew(at time.Duration) {
	c.request.renew(c.run.start.Add(at), c.run.nextKey())
}

// ask sends the request and returns the status of its answer, or 0 if there was none.
func (c *client) ask() int {
	h, err := c.wire.ask(c.request.text)
	return c.take(h, err)
}

// take reads an answer to its end, after its head.
func (c *client) take(h head, err error) int {
	var quote *strings.Builder
	if err == nil {
		if !c.run.expected[h.status] {
			c.tally.unexpected++
			quote = &strings.Builder{}
		}
		err = h.readBody(c.wire.answers, quote)
	}
	if err != nil {
		c.tally.lost++
		c.run.quote("no answer: " + err.Error())
	} else if quote != nil {
		c.run.quote(fmt.Sprintf("status %d: %s", h.status, quote))
	}
	if err != nil || h.closes {
		c.reconnect()
	}
	if err != nil {
		return 0
	}
	return h.status
}

// reconnect takes a new connection, once: a server that takes none is no longer there.
func (c *client) reconnect() {
	c.wire.close()
	fresh, err := connect(c.run.ctx, c.address, c.run.deadline())
	if err != nil {
		c.run.quote("no connection: " + err.Error())
		c.wire = nil
		return
	}
	c.wire = fresh
}

// count takes the answer to a request that was begun, or due, at a time since the start.
func (c *client) count(status int, from, to time.Duration) {
	if status == 0 || from < c.run.warm {
		return
	}
	c.tally.statuses[status]++
	c.tally.latencies.record(to - from)
}
