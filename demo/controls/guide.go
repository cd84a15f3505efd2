package controls

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"payonce/demo/windows"
	"payonce/internal/idempotency"
)

// facts are what the page knows of its newest payment.
type facts struct {
	story
	Now      time.Time
	Deadline time.Time // when the API stops waiting for the PSP's answer to the first request
	Away     bool      // no API process serves
	HeldAt   string    // the crash window at which a payment is held; empty: nothing is held
	Row      Row
	PSP      books
}

// guide says what to do next, or at the end what has been seen. It follows from the facts alone.
func guide(f facts) string {
	switch {
	case f.Key == "":
		return "Press 1."
	case f.HeldAt != "":
		return "A payment is held at window " + f.HeldAt + ". Choose what fails, above the picture."
	case f.Away && f.Lost:
		return "The API was killed, and is being started again. This is expected. Now press 3."
	case f.Away:
		return "The API is being started again. This is expected."
	case f.Row.Case:
		return "An operator has to decide about this payment. The console has the case, under dead letters."
	}
	switch f.Row.Status {
	case idempotency.InProgressStatus:
		return guideInProgress(f)
	case idempotency.UnknownStatus:
		return "It is not known yet whether the PSP has charged. The reconciler asks the PSP. Wait until the outcome is known."
	case idempotency.FailedRetryableStatus:
		return "The PSP has not charged. Press 3: the same request is executed again."
	case idempotency.CompletedStatus:
		return guideCompleted(f)
	case idempotency.ExpiredStatus:
	}
	return "The request is on its way."
}

func guideInProgress(f facts) string {
	end := f.Row.LeaseEnd.UTC().Format(time.TimeOnly)
	switch {
	case f.Lost && f.Status == inProgressAnswer:
		return "The answer is 409 until about " + end + " (UTC), when the lease of the first request is over. Then the " +
			"reconciler asks the PSP."
	case f.Lost && f.Waiting:
		return "The same request was sent again, and waits for its answer."
	case f.Lost:
		return "The API was killed. The client has no answer, and does not know whether the PSP has charged. Now press 3."
	case f.Waiting && f.Now.Before(f.Deadline):
		return "Now press 2, before " + f.Deadline.UTC().Format(time.TimeOnly) + " (UTC)."
	}
	return "The first request has a lease until " + end + " (UTC)."
}

// The answers that the guide tells apart.
const (
	inProgressAnswer = 409
	createdAnswer    = 201
)

func guideCompleted(f facts) string {
	switch {
	case f.Waiting && f.Sent == 1:
		return "The outcome is known now, and the answer is stored. The first request still waits for it."
	case f.Waiting:
		return "The same request was sent again, and waits for its answer."
	case f.Status != createdAnswer && (f.Lost || f.Sent > 1 || f.Status/100 == 2):
		return "The outcome is known now, and the answer is stored. Press 3: the client gets the stored answer."
	case f.Status != createdAnswer:
		return "The answer is final. Press 3: the client gets the same answer again."
	case f.Sent == 1:
		return f.PSP.charged() + ". Press 3: the client sends the same request again."
	}
	seen := f.PSP.charged() + fmt.Sprintf(", although the client sent the request %d times", f.Sent)
	if f.Lost {
		seen += " and the API was killed"
	}
	switch {
	case !f.PSP.Read || f.PSP.Requests != 1:
		return seen + "."
	case f.Sent == 2: //nolint:mnd // the first request and one retry
		seen += ": your retry"
	default:
		seen += ": your retries"
	}
	return seen + " did not reach the PSP, because the key was reserved before the first request was sent to it."
}

// charged says what the PSP has done, as its ledger tells.
func (b books) charged() string {
	switch {
	case !b.Read:
		return "The client has its answer"
	case b.Charges == 0:
		return "The PSP has not charged"
	case b.Charges == 1:
		return "The PSP has charged once"
	}
	return fmt.Sprintf("The PSP has charged %d times", b.Charges)
}

const (
	// lookEvery is how often a stream looks for what has changed. Nobody tells the page.
	lookEvery = 250 * time.Millisecond
	// looksLimit bounds one look: the page is shown without what does not answer.
	looksLimit = time.Second
)

// Row is what the database has of a key. It is zero if there is no such key.
type Row struct {
	Read     bool // otherwise nothing is known
	Status   idempotency.Status
	LeaseEnd time.Time
	Case     bool // an operator has to decide
	// Finished is when the key got its status, and By who has brought it there, as in the timeline. They are zero while
	// the key is in progress or unknown.
	Finished time.Time
	By       string
}

// books are what the mock PSP has of a key, and the rates of its faults.
type books struct {
	Read     bool // otherwise nothing is known
	Charges  int  // that succeeded
	Requests int  // that could have charged
}

// observer keeps what was seen of a payment, so that all pages share one look.
type observer struct {
	mu     sync.Mutex
	at     time.Time // of the last look
	key    string    // that the row and the books are about
	row    Row
	psp    books
	preset string // that the PSP has; empty: its rates are another person's
}

// facts reads what there is to know of the newest payment.
func (s *Controls) facts() (f facts, preset string) {
	f = facts{story: s.told.story(), Now: s.config.Now()}
	f.Deadline = f.First.Add(s.config.PSPTimeout)
	if s.config.API.State != nil {
		f.Away = !s.config.API.State().Serves
	}
	if stop := s.stopView(); stop != nil && stop.Phase == windows.Held {
		f.HeldAt = stop.Window.ID
	}
	f.Row, f.PSP, preset = s.observe(&s.seen, f.Key)
	return f, preset
}

// observe looks at a key, unless somebody has just done that.
func (s *Controls) observe(o *observer, key string) (Row, books, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key != o.key {
		o.key, o.row, o.psp, o.at = key, Row{}, books{}, time.Time{}
	}
	if now := s.config.Now(); now.Sub(o.at) >= lookEvery {
		s.look(o)
		o.at = now
	}
	return o.row, o.psp, o.preset
}

// look reads the row and the PSP's books. What cannot be read stays as it was. The caller holds o.mu.
func (s *Controls) look(o *observer) {
	ctx, cancel := context.WithTimeout(s.ctx, looksLimit)
	defer cancel()
	if raw, err := s.askPSP(ctx, "GET", "/_faults", ""); err == nil {
		o.preset = presetOf(raw)
	}
	if o.key == "" {
		return
	}
	if s.config.Row != nil {
		if row, err := s.config.Row(ctx, o.key); err == nil {
			o.row, o.row.Read = row, true
		}
	}
	if b, err := s.readBooks(ctx, o.key); err == nil {
		o.psp = b
	}
}

// readBooks asks the mock PSP what it has charged under a key, and how often it was asked to.
func (s *Controls) readBooks(ctx context.Context, key string) (books, error) {
	ledger, err := s.ledgerOf(ctx, url.Values{"account": {s.config.Account}, "idempotencyKey": {key}})
	if err != nil {
		return books{}, err
	}
	b := books{Read: true}
	for _, sent := range s.config.ChargeKeys(key) {
		calls, err := s.callsOf(ctx, s.config.Account, sent)
		if err != nil {
			return books{}, err
		}
		b.Requests += calls.Posts
	}
	for _, c := range ledger {
		if c.moved() {
			b.Charges++
		}
	}
	return b, nil
}
