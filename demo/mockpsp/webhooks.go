package mockpsp

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	webhooksAtOnce = 16
	webhookJitter  = 10 // a gap is stretched by up to one part in so many
)

// Outbox brings each subject's webhook to the receiver, at least once or until it is given up. Without a URL it does
// nothing at all. Each dialect has one.
type Outbox struct {
	config    Config
	log       *slog.Logger
	sender    *webhookSender
	find      func(id string) Subject // of another dialect
	disorders *Rates
	slots     chan struct{} // one for each try that is under way

	ctx    context.Context // ends every try
	cancel context.CancelFunc
	timers Timers // of those that wait, one at most for each entry with a webhook to send

	mu      sync.Mutex
	stopped bool
	jitter  *rand.Rand
	order   int         // of the last that is expected
	latest  int         // order of the latest that has been sent
	held    []*delivery // back until a later one has been sent; some may have gone already, because their time was over
	ends    webhookEnds
}

// delivery is a webhook on its way to the receiver.
type delivery struct {
	of     Subject
	drawn  map[string]bool // its disorders
	copied bool            // a duplicate: one try, whose end is of no account
	order  int             // of the subject among all
	tries  int
	due    time.Time
	timer  *time.Timer
}

// newOutbox goes on with the webhooks, of all subjects that are there, which have not ended by the file at a path.
// Config has the URL.
func newOutbox(config Config, path string, sign Signer, disorders *Rates, all []Subject) (*Outbox, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Outbox{
		config:    config,
		log:       config.Log,
		sender:    newWebhookSender(config, sign),
		disorders: disorders,
		slots:     make(chan struct{}, webhooksAtOnce),
		ctx:       ctx,
		cancel:    cancel,
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
		w.Expect(subject)()
	}
	return w, nil
}

func (w *Outbox) on() bool { return w.config.WebhookURL != "" }

// Expect prepares the webhook of something that is durable. Its disorders are drawn now, before the caller can have an
// answer and change the rates. The webhook goes once release is called: when the call that caused it has ended.
func (w *Outbox) Expect(of Subject) (release func()) {
	if !w.on() {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends.pending++
	w.order++
	expected := &delivery{of: of, drawn: w.disorders.each(), order: w.order}
	return func() { w.release(expected) }
}

// expect prepares the webhook of an entry, if it has one, and starts the clock of what happens to the entry by itself.
func (s *Server) expect(r *record) (release func()) {
	s.follow(r)
	if !r.sendsWebhook(s.config.SilentAccount) {
		return func() {}
	}
	return s.webhooks.Expect(r)
}

// release lets an expected webhook go, now that the call has ended. When the PSP stops first, the next start does it.
func (w *Outbox) release(d *delivery) {
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
	wait := w.config.WebhookDelay
	if d.drawn[disorderDelay] {
		wait += w.config.WebhookExtraDelay
	}
	second := *d
	w.schedule(d, wait)
	if d.drawn[disorderDuplicate] {
		second.copied = true
		w.schedule(&second, wait)
	}
}

// schedule has a webhook tried after the wait. One to be reordered is held back at first, unless a later one was faster
// anyway. The caller holds w.mu.
func (w *Outbox) schedule(d *delivery, wait time.Duration) {
	d.due = time.Now().Add(wait)
	if d.drawn[disorderReorder] && d.tries == 0 && d.order > w.latest {
		wait += w.config.WebhookExtraDelay
		w.held = append(w.held, d)
	}
	d.timer = w.timers.Start(wait, func() { w.attempt(d) })
}

// sent lets go what was held until a later one has been sent. The caller holds w.mu.
func (w *Outbox) sent(order int) {
	w.latest = max(w.latest, order)
	w.held = slices.DeleteFunc(w.held, func(d *delivery) bool {
		if d.order >= w.latest {
			return false
		}
		if d.timer.Stop() {
			d.timer.Reset(time.Until(d.due))
		}
		return true
	})
}

func (w *Outbox) attempt(d *delivery) {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-w.ctx.Done():
		return // the next start sends it
	}
	d.tries++
	how := ""
	if d.tries == 1 {
		how = ofTry(d.drawn)
	}
	if d.copied {
		how = disorderDuplicate
	} else if d.tries == 1 && d.drawn[disorderForge] {
		w.sender.send(w.ctx, d.of, disorderForge, d.tries)
	}
	w.afterTry(d, w.sender.send(w.ctx, d.of, how, d.tries))
}

// afterTry decides what a try's end means for its webhook.
func (w *Outbox) afterTry(d *delivery, done try) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent(d.order)
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
		w.schedule(d, gap+time.Duration(w.jitter.Float64()*float64(gap)/webhookJitter))
	}
}

// end closes a webhook for good. The caller holds w.mu.
func (w *Outbox) end(of Subject, how webhookEnd) {
	if err := w.ends.note(of.SubjectID(), how); err != nil {
		w.log.Error("end of a webhook could not be noted; a restart will send again", "error", err)
	}
}

// stop cuts the tries short and waits for them.
func (w *Outbox) stop() error {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.cancel()
	w.timers.Stop()
	w.sender.client.CloseIdleConnections()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends.close()
}
