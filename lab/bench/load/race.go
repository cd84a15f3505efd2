package load

import "time"

// race sends, round by round, a request on each connection at once, and counts the time until all are answered. One
// goroutine does it all: the answers wait in the sockets until they are read, and nobody has to be woken in between.
func (r *run) race() {
	for counted := 0; r.plan.Rounds == 0 || counted < r.plan.Rounds; {
		for _, c := range r.clients {
			c.renew(r.elapsed())
			if r.plan.Kind == Same {
				c.request.borrow(r.clients[0].request)
			}
		}
		began := r.elapsed()
		if !r.takes(began) {
			return
		}
		if !r.round(began) {
			return
		}
		if began >= r.warm {
			took := r.elapsed() - began
			r.rounds = append(r.rounds, micros(took))
			r.clients[0].tally.latencies.record(took)
			counted++
		}
	}
}

// round reports whether every request had its answer.
func (r *run) round(began time.Duration) bool {
	whole := true
	for _, c := range r.clients {
		if _, err := c.wire.conn.Write(c.request.text); err != nil {
			whole = false // reading will say so
		}
	}
	for _, c := range r.clients {
		status := c.take(readHead(c.wire.answers))
		if status == 0 || c.wire == nil {
			whole = false
			continue
		}
		if began >= r.warm {
			c.tally.statuses[status]++
		}
	}
	return whole
}
