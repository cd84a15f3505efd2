package mockpsp

import (
	"container/heap"
	"slices"
	"time"
)

// delivery is a webhook on its way to the receiver.
type delivery struct {
	of     Subject
	drawn  disorderSet
	copied bool // a duplicate: one try, whose end is of no account
	order  int  // of the subject among all
	tries  int
	due    time.Time

	held     bool      // back until a later one has been sent
	heldFrom time.Time // when it would have been due
	index    int       // in the queue
}

// deliveryQueue holds what is to be sent, by due time. It is as long as there are entries with a webhook to send.
type deliveryQueue struct {
	waiting deliveryHeap
	held    []*delivery // by order; some may have gone already, because their time was over
	latest  int         // order of the latest that has been sent
}

// add takes in a webhook whose call has ended. One to be reordered is held back, unless a later one was faster anyway.
func (q *deliveryQueue) add(d *delivery, hold time.Duration) {
	if d.drawn[disorderReorder] && d.order > q.latest {
		d.held, d.heldFrom, d.due = true, d.due, d.due.Add(hold)
		at := len(q.held)
		for at > 0 && q.held[at-1].order > d.order { // calls end nearly in the order of their entries
			at--
		}
		q.held = slices.Insert(q.held, at, d)
	}
	q.push(d)
}

func (q *deliveryQueue) push(d *delivery) { heap.Push(&q.waiting, d) }

// pop returns the first that is due, or nil and how long until there can be one.
func (q *deliveryQueue) pop(now time.Time) (*delivery, time.Duration) {
	if len(q.waiting) == 0 {
		return nil, time.Hour
	}
	if first := q.waiting[0]; first.due.After(now) {
		return nil, first.due.Sub(now)
	}
	d, _ := heap.Pop(&q.waiting).(*delivery)
	d.held = false
	return d, 0
}

// sent lets go what was held until a later one has been sent.
func (q *deliveryQueue) sent(order int) {
	q.latest = max(q.latest, order)
	for len(q.held) > 0 && q.held[0].order < q.latest {
		if d := q.held[0]; d.held {
			d.held, d.due = false, d.heldFrom
			heap.Fix(&q.waiting, d.index)
		}
		q.held[0] = nil
		q.held = q.held[1:]
	}
}

// deliveryHeap implements [heap.Interface].
type deliveryHeap []*delivery

func (h deliveryHeap) Len() int           { return len(h) }
func (h deliveryHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h deliveryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *deliveryHeap) Push(x any) {
	d, _ := x.(*delivery)
	d.index = len(*h)
	*h = append(*h, d)
}

// Pop implements [heap.Interface].
func (h *deliveryHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}
