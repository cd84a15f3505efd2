package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/watch"
)

const (
	refreshMost = 100 * time.Millisecond // between two renderings of one topic
	maxTopics   = 64
	maxReaders  = 128 // half of the connections of the listener: /livez and /readyz need some, too
)

// errBusy says that too many pages are open.
var errBusy = errors.New("too many pages are open")

// content makes what a topic shows, and hands it to show, once or several times. changed says that the database or this
// process has something new. It is false when only the time of every has passed.
type content func(ctx context.Context, changed bool, show func(html string)) error

// topic is what pages watch: a key, or the overview. All pages of a topic get the same content, which is made once.
type topic struct {
	ref    *idempotency.Ref // nil for the overview
	every  time.Duration    // how often the content is made without a change
	render content

	stop  context.CancelFunc
	stamp string // as the key was read the last time

	mu      sync.Mutex
	readers int
	html    string
	trouble error
	changed chan struct{} // closed when html or trouble has changed
}

// watched are the topics that somebody looks at.
type watched struct {
	keys *watch.Keys[string]

	mu      sync.Mutex
	topics  map[string]*topic
	readers int
}

// unread stands for the stamp of a key that could not be read. If the database does not answer, a topic finds that out
// itself, and then tries again by its own clock.
const unread = "unread"

func newWatch(stamps func(context.Context, []idempotency.Ref) (map[idempotency.Ref]string, error)) *watched {
	read := func(ctx context.Context, refs []idempotency.Ref) (map[idempotency.Ref]string, error) {
		seen, err := stamps(ctx, refs)
		if err != nil {
			seen = map[idempotency.Ref]string{}
			for _, ref := range refs {
				seen[ref] = unread
			}
		}
		return seen, nil
	}
	return &watched{keys: watch.New(read), topics: map[string]*topic{}}
}

// subscribe adds a reader to a topic, and makes the topic if this is its first reader. leave must be called once.
func (w *watched) subscribe(name string, made func() *topic) (t *topic, leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, known := w.topics[name]
	if w.readers >= maxReaders || !known && len(w.topics) >= maxTopics {
		return nil, nil, errBusy
	}
	if !known {
		t = made()
		t.changed = make(chan struct{})
		var ctx context.Context
		ctx, t.stop = context.WithCancel(context.Background())
		w.topics[name] = t
		go t.run(ctx, w.keys)
	}
	t.readers++
	w.readers++
	return t, func() { w.leave(name, t) }, nil
}

func (w *watched) leave(name string, t *topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers--
	if t.readers--; t.readers == 0 {
		delete(w.topics, name)
		t.stop()
	}
}

// join has a change of the topic's key wake it, one that a read finds or one of this process.
func (t *topic) join(keys *watch.Keys[string]) (woken <-chan struct{}, leave func()) {
	if t.ref == nil {
		return nil, func() {}
	}
	m := keys.Join(*t.ref)
	m.Wait(func(stamp string, _ bool) bool {
		isNew := stamp != t.stamp
		t.stamp = stamp
		return isNew
	})
	return m.Changed(), m.Leave
}

// run makes the content until nobody looks any more.
func (t *topic) run(ctx context.Context, keys *watch.Keys[string]) {
	woken, leave := t.join(keys)
	defer func() { leave() }()
	pause, tick := time.NewTimer(0), time.NewTicker(t.every)
	defer pause.Stop()
	defer tick.Stop()
	for changed := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		err := t.render(ctx, changed, func(html string) { t.publish(html, nil) })
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.publish("", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-woken:
			changed = true
			leave()
			woken, leave = t.join(keys) // before the content is made: what changes meanwhile wakes it once more
		case <-tick.C:
			changed = err != nil // What could not be read is still to be read.
		}
		pause.Reset(refreshMost)
	}
}

func (t *topic) publish(html string, trouble error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if trouble != nil {
		html = t.html // The last content stays on the page.
	}
	if html == t.html && (trouble == nil) == (t.trouble == nil) {
		return
	}
	t.html, t.trouble = html, trouble
	close(t.changed)
	t.changed = make(chan struct{})
}

// state is the present content. It is empty before it was made for the first time.
type state struct {
	html    string
	trouble error           // why the content may be old
	changed <-chan struct{} // closed when there is another state
}

func (t *topic) now() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return state{t.html, t.trouble, t.changed}
}
