package console

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/httpapi"
	"payonce/internal/idempotency"
)

// patience bounds every wait for an event. Reaching it is a failure.
const patience = 30 * time.Second

// await returns the content of a topic once it fits.
func await(t *testing.T, topic *topic, fits func(html string, trouble error) bool) {
	t.Helper()
	over := time.After(patience)
	for {
		now := topic.now()
		if fits(now.html, now.trouble) {
			return
		}
		select {
		case <-now.changed:
		case <-over:
			t.Fatalf("the content stays %q, %v", now.html, now.trouble)
		}
	}
}

func TestOneQueryFindsTheChangesOfAllKeys(t *testing.T) {
	t.Parallel()
	var version atomic.Int64
	var asked atomic.Int64 // the most keys in a query
	w := newWatch(func(_ context.Context, refs []idempotency.Ref) (map[idempotency.Ref]string, error) {
		asked.Store(max(asked.Load(), int64(len(refs))))
		stamps := map[idempotency.Ref]string{}
		for _, ref := range refs {
			stamps[ref] = fmt.Sprint(version.Load())
		}
		return stamps, nil
	})
	const keys = 20
	topics := make([]*topic, keys)
	var leaves []func()
	for i := range topics {
		ref := idempotency.StoredRef("acme", "POST /payments", fmt.Sprint(i))
		var err error
		var leave func()
		topics[i], leave, err = w.subscribe(keyURL(ref), func() *topic {
			return &topic{ref: &ref, every: time.Hour, render: func(
				_ context.Context, _ bool, show func(string),
			) error {
				show(fmt.Sprint("version ", version.Load()))
				return nil
			}}
		})
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	for _, each := range topics {
		await(t, each, func(html string, _ error) bool { return html == "version 0" })
	}
	version.Store(1)
	for _, each := range topics {
		await(t, each, func(html string, _ error) bool { return html == "version 1" })
	}
	if asked.Load() != keys {
		t.Errorf("%d keys in a query", asked.Load())
	}
	for _, leave := range leaves {
		leave()
	}
	if len(w.topics) != 0 || w.readers != 0 {
		t.Errorf("nobody looks, and still there is %+v", w)
	}
}

// The pages of a key are made again by a request in this process, without any query.
func TestOwnRequestsWakeThePagesInMemory(t *testing.T) {
	t.Parallel()
	w := newWatch(func(context.Context, []idempotency.Ref) (map[idempotency.Ref]string, error) { return nil, nil })
	ref := idempotency.StoredRef("acme", "POST /payments", "order-1")
	var made atomic.Int64
	topic, leave, err := w.subscribe(keyURL(ref), func() *topic {
		return &topic{ref: &ref, every: time.Hour, render: func(_ context.Context, _ bool, show func(string)) error {
			show(fmt.Sprint(made.Add(1)))
			return nil
		}}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	await(t, topic, func(html string, _ error) bool { return html == "1" })
	w.keys.Wake(ref)
	await(t, topic, func(html string, _ error) bool { return html == "2" })
	w.keys.Wake(idempotency.StoredRef("globex", "POST /payments", "order-1")) // nobody watches it
}

// Two pages of one key share its content, and the last content stays while the database is away.
func TestTroubleKeepsTheLastContent(t *testing.T) {
	t.Parallel()
	w := newWatch(func(context.Context, []idempotency.Ref) (map[idempotency.Ref]string, error) { return nil, nil })
	ref := idempotency.StoredRef("acme", "POST /payments", "order-1")
	var away atomic.Bool
	var made atomic.Int64
	made1 := func() *topic {
		made.Add(1)
		return &topic{ref: &ref, every: time.Hour, render: func(_ context.Context, _ bool, show func(string)) error {
			if away.Load() {
				return errors.New("away")
			}
			show("content")
			return nil
		}}
	}
	first, leaveFirst, err := w.subscribe(keyURL(ref), made1)
	if err != nil {
		t.Fatal(err)
	}
	second, leaveSecond, err := w.subscribe(keyURL(ref), made1)
	if err != nil || second != first || made.Load() != 1 {
		t.Fatalf("%v; %d topics for one key", err, made.Load())
	}
	await(t, first, func(html string, trouble error) bool { return html == "content" && trouble == nil })
	leaveFirst()
	away.Store(true)
	w.keys.Wake(ref)
	await(t, second, func(html string, trouble error) bool { return html == "content" && trouble != nil })
	away.Store(false)
	w.keys.Wake(ref)
	await(t, second, func(html string, trouble error) bool { return html == "content" && trouble == nil })
	leaveSecond()
}

// A read that fails once is done again, although the stamp of the key is known by then and does not change any more.
func TestFailedReadIsDoneAgain(t *testing.T) {
	t.Parallel()
	w := newWatch(func(_ context.Context, refs []idempotency.Ref) (map[idempotency.Ref]string, error) {
		return map[idempotency.Ref]string{refs[0]: "completed"}, nil
	})
	ref := idempotency.StoredRef("acme", "POST /payments", "order-1")
	var reads atomic.Int64
	known := "nothing" // as a page of a key, it reads only what has changed
	topic, leave, err := w.subscribe(keyURL(ref), func() *topic {
		return &topic{ref: &ref, every: 10 * time.Millisecond,
			render: func(_ context.Context, changed bool, show func(string)) error {
				if changed {
					if reads.Add(1) <= 3 { // the first read, that of the stamp, and one more
						return errors.New("the pool is full")
					}
					known = "completed"
				}
				show(known)
				return nil
			}}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	await(t, topic, func(html string, trouble error) bool { return html == "completed" && trouble == nil })
}

func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWatch(func(context.Context, []idempotency.Ref) (map[idempotency.Ref]string, error) { return nil, nil })
	still := func() *topic {
		return &topic{every: time.Hour, render: func(context.Context, bool, func(string)) error { return nil }}
	}
	open := func(name string) error {
		_, leave, err := w.subscribe(name, still)
		if err == nil {
			t.Cleanup(leave)
		}
		return err
	}
	for i := range maxTopics {
		if err := open(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := open("one more"); !errors.Is(err, errBusy) {
		t.Errorf("one topic too many: %v", err)
	}
	for range maxReaders - maxTopics {
		if err := open("1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := open("1"); !errors.Is(err, errBusy) {
		t.Errorf("one page too many: %v", err)
	}
}

// A replay costs one round trip and no allocation of the console's.
func TestRememberingAllocatesNothing(t *testing.T) {
	m := NewRecent(time.Time{})
	w := newWatch(nil)
	m.OnAdd(w.keys.Wake)
	w.keys.Join(idempotency.StoredRef("acme", "POST /payments", "order-2")) // Somebody looks at another key.
	r := httpapi.Request{Ref: idempotency.StoredRef("acme", "POST /payments", "order-1"), Status: 201, Replayed: true}
	m.Add(r) // The counter is made.
	if n := testing.AllocsPerRun(100, func() { m.Add(r) }); n > 0 {
		t.Errorf("%v allocations for a request", n)
	}
}
