package console

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"payonce/internal/idempotency"
)

const (
	pollEvery   = 250 * time.Millisecond // for the changes of other processes
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

	dirty chan struct{} // has room for one
	stop  context.CancelFunc

	mu      sync.Mutex
	readers int
	html    string
	trouble error
	changed chan struct{} // closed when html or trouble has changed
	stamp   string
}

// watch has the topics that somebody looks at.
type watch struct {
	stamps func(context.Context, []idempotency.Ref) (map[idempotency.Ref]string, error)

	watched atomic.Int32 // how many topics there are, to be read without the lock

	mu      sync.Mutex
	topics  map[string]*topic
	byRef   map[idempotency.Ref]*topic // those of keys
	readers int
	polling context.CancelFunc // nil while nobody looks
}

func newWatch(stamps func(context.Context, []idempotency.Ref) (map[idempotency.Ref]string, error)) *watch {
	return &watch{stamps: stamps, topics: map[string]*topic{}, byRef: map[idempotency.Ref]*topic{}}
}

// subscribe adds a reader to a topic, and makes the topic if this is its first reader. leave must be called once.
func (w *watch) subscribe(name string, made func() *topic) (t *topic, leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, known := w.topics[name]
	if w.readers >= maxReaders || !known && len(w.topics) >= maxTopics {
		return nil, nil, errBusy
	}
	if !known {
		t = made()
		t.dirty, t.changed = make(chan struct{}, 1), make(chan struct{})
		var ctx context.Context
		ctx, t.stop = context.WithCancel(context.Background())
		w.topics[name] = t
		if t.ref != nil {
			w.byRef[*t.ref] = t
		}
		w.watched.Add(1)
		go t.run(ctx)
	}
	if w.polling == nil {
		var ctx context.Context
		ctx, w.polling = context.WithCancel(context.Background())
		go w.poll(ctx)
	}
	t.readers++
	w.readers++
	return t, func() { w.leave(name, t) }, nil
}

func (w *watch) leave(name string, t *topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers--
	if t.readers--; t.readers == 0 {
		delete(w.topics, name)
		if t.ref != nil {
			delete(w.byRef, *t.ref)
		}
		w.watched.Add(-1)
		t.stop()
	}
	if w.readers == 0 {
		w.polling()
		w.polling = nil
	}
}

// wake has the pages of a key made again. Every request with a key calls it, so it allocates nothing, and does nothing
// while nobody looks.
func (w *watch) wake(ref idempotency.Ref) {
	if w.watched.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, watched := w.byRef[ref]; watched {
		t.touch()
	}
}

// poll finds the changes of the keys that are watched, by one query for all of them.
func (w *watch) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		refs, topics := w.keys()
		if len(refs) == 0 {
			continue
		}
		stamps, err := w.stamps(ctx, refs)
		if ctx.Err() != nil {
			return
		}
		for i, t := range topics {
			t.compare(stamps[refs[i]], err)
		}
	}
}

func (w *watch) keys() (refs []idempotency.Ref, topics []*topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref, t := range w.byRef {
		refs, topics = append(refs, ref), append(topics, t)
	}
	return refs, topics
}

// compare has the content made again if the stamp has changed. If the database does not answer, the topic finds that
// out itself, and then tries again by its own clock.
func (t *topic) compare(stamp string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && t.trouble == nil || err == nil && t.stamp != stamp {
		t.stamp = stamp
		t.touch()
	}
}

// touch has the content made again soon.
func (t *topic) touch() {
	select {
	case t.dirty <- struct{}{}:
	default: // It is about to be made again already.
	}
}

// run makes the content until nobody looks any more.
func (t *topic) run(ctx context.Context) {
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
		case <-t.dirty:
			changed = true
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
