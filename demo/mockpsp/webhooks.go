package mockpsp

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	webhooksAtOnce = 16
	webhookJitter  = 10 // a gap is stretched by up to one part in so many
)

// webhooks brings each subject's webhook to the receiver, at least once or until it is given up. Without a URL it does
// nothing at all.
type webhooks struct {
	config    Config
	log       *slog.Logger
	sender    *webhookSender
	disorders *disorderRates
	slots     chan struct{} // one for each try that is under way

	ctx     context.Context // ends every try
	cancel  context.CancelFunc
	wake    chan struct{} // tells the dispatcher that the queue has changed
	running sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	jitter  *rand.Rand
	order   int // of the last that is expected
	queue   deliveryQueue
	ends    webhookEnds
}

// newWebhooks returns the webhooks of the subjects that are there, and goes on with those that have not ended by the
// file at a path. Config has the URL.
func newWebhooks(config Config, path string, sign Signer, disorders *disorderRates, all []Subject) (*webhooks, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &webhooks{
		config:    config,
		log:       config.Log,
		sender:    newWebhookSender(config, sign),
		disorders: disorders,
		slots:     make(chan struct{}, webhooksAtOnce),
		ctx:       ctx,
		cancel:    cancel,
		wake:      make(chan struct{}, 1),
		jitter:    split(config.Rand),
	}
	if !w.on() {
		return w, nil
	}
	open, err := w.ends.open(path, config.Log, all)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open webhooks: %w", err)
	}
	for _, subject := range open {
		w.release(w.expect(subject))
	}
	w.running.Go(w.dispatch)
	return w, nil
}

// split returns another source, so that its draws and those of the first do not disturb each other.
func split(source *rand.Rand) *rand.Rand {
	return rand.New(rand.NewPCG(source.Uint64(), source.Uint64()))
}

func (w *webhooks) on() bool { return w.config.WebhookURL != "" }

// expect prepares the webhook of a subject that is durable: nil if nobody is told. It is not sent before release. Its
// disorders are drawn now, before the caller can have an answer and change the rates.
func (w *webhooks) expect(of Subject) *delivery {
	if !w.on() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends.pending++
	w.order++
	return &delivery{of: of, drawn: w.disorders.draw(), order: w.order}
}

// expect prepares the webhook of an entry: nil if it has none.
func (s *Server) expect(r *record) *delivery {
	if !r.sendsWebhook() {
		return nil
	}
	return s.webhooks.expect(&r.Entry)
}

// release lets an expected webhook go, now that the call has ended. When the PSP stops first, the next start does it.
func (w *webhooks) release(d *delivery) {
	if d == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if d.drawn[disorderDrop] {
		w.sender.skip(d.of)
		w.end(d.of, endDropped)
		return
	}
	d.due = time.Now().Add(w.config.WebhookDelay)
	if d.drawn[disorderDelay] {
		d.due = d.due.Add(w.config.WebhookExtraDelay)
	}
	second := *d
	w.queue.add(d, w.config.WebhookExtraDelay)
	if d.drawn[disorderDuplicate] {
		second.copied = true
		w.queue.add(&second, w.config.WebhookExtraDelay)
	}
	w.nudge()
}

func (w *webhooks) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been told already
	}
}

// dispatch hands what is due to a slot. It takes the slot first: what is due is decided when it can really go.
func (w *webhooks) dispatch() {
	for {
		select {
		case w.slots <- struct{}{}:
		case <-w.ctx.Done():
			return
		}
		next := w.next()
		if next == nil {
			return
		}
		w.running.Go(func() {
			defer func() { <-w.slots }()
			w.attempt(next)
		})
	}
}

// next waits for what is due. It returns nil when the PSP stops.
func (w *webhooks) next() *delivery {
	for {
		w.mu.Lock()
		due, wait := w.queue.pop(time.Now())
		w.mu.Unlock()
		if due != nil {
			return due
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

func (w *webhooks) attempt(d *delivery) {
	d.tries++
	how := disorder("")
	if d.tries == 1 {
		how = d.drawn.ofTry()
	}
	if d.copied {
		how = disorderDuplicate
	} else if d.tries == 1 && d.drawn[disorderForge] {
		w.sender.send(w.ctx, d.of, disorderForge, d.tries)
	}
	w.afterTry(d, w.sender.send(w.ctx, d.of, how, d.tries))
}

// afterTry decides what a try's end means for its webhook.
func (w *webhooks) afterTry(d *delivery, done try) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.sent(d.order)
	defer w.nudge()
	switch {
	case d.copied:
	case done.delivered():
		w.end(d.of, endDelivered)
	case w.ctx.Err() != nil: // cut short by our own stop; the next start sends it again
	case done.Status == http.StatusGone || d.tries > len(w.config.WebhookSchedule):
		w.log.Warn("webhook given up", "id", done.ID, "entry", done.EntryID, "tries", d.tries, "status", done.Status,
			"error", done.Error)
		w.end(d.of, endGivenUp)
	default:
		gap := w.config.WebhookSchedule[d.tries-1]
		d.due = time.Now().Add(gap + time.Duration(w.jitter.Float64()*float64(gap)/webhookJitter))
		w.queue.push(d)
	}
}

// end closes a webhook for good. The caller holds w.mu.
func (w *webhooks) end(of Subject, how webhookEnd) {
	if err := w.ends.note(of.SubjectID(), how); err != nil {
		w.log.Error("end of a webhook could not be noted; a restart will send again", "error", err)
	}
}

// stop cuts the tries short and waits for them.
func (w *webhooks) stop() error {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.cancel()
	w.running.Wait()
	w.sender.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends.close()
}
