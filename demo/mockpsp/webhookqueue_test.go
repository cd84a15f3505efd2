package mockpsp

import (
	"slices"
	"testing"
	"time"
)

// popped returns the orders of what is due, in order of due time.
func (q *deliveryQueue) popped(now time.Time) (orders []int) {
	for {
		d, _ := q.pop(now)
		if d == nil {
			return orders
		}
		orders = append(orders, d.order)
	}
}

// Calls do not end in the order of their entries: a held one of them may have been overtaken already.
func TestReorderedWebhookIsNotHeldForWhatWasSentBefore(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	reordered := func(order int) *delivery {
		return &delivery{order: order, due: start, drawn: disorderSet{disorderReorder: true}}
	}
	var q deliveryQueue
	for _, order := range []int{4, 2, 5, 3} {
		q.add(reordered(order), time.Hour)
	}
	if got := q.popped(start); len(got) != 0 {
		t.Errorf("not held: %v", got)
	}
	q.sent(4)
	got := q.popped(start)
	slices.Sort(got)
	if !slices.Equal(got, []int{2, 3}) {
		t.Errorf("the fourth frees %v", got)
	}
	q.add(reordered(1), time.Hour)
	if got := q.popped(start); !slices.Equal(got, []int{1}) {
		t.Errorf("held although the fourth was sent: %v free", got)
	}
	if got := q.popped(start.Add(time.Hour)); len(got) != 2 {
		t.Errorf("free after the hour: %v", got)
	}
	q.sent(9)
	if len(q.held) != 0 || len(q.waiting) != 0 {
		t.Errorf("left over: %v, %v", q.held, q.waiting)
	}
}

func TestQueueSaysHowLongToWait(t *testing.T) {
	t.Parallel()
	var q deliveryQueue
	start := time.Unix(0, 0)
	for _, seconds := range []int{7, 3, 5} {
		q.add(&delivery{order: seconds, due: start.Add(time.Duration(seconds) * time.Second)}, 0)
	}
	if d, wait := q.pop(start); d != nil || wait != 3*time.Second {
		t.Errorf("got %v, wait %v", d, wait)
	}
	if got := q.popped(start.Add(time.Minute)); !slices.Equal(got, []int{3, 5, 7}) {
		t.Errorf("got %v", got)
	}
}
