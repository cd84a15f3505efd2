package controls

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/idempotency"
)

const (
	// lookEvery is how often a stream looks for facts of which nobody tells the page.
	lookEvery = 500 * time.Millisecond
	// looksLimit bounds one look: the page is shown without what does not answer.
	looksLimit = time.Second
)

// Row is what the database has of a key. It is zero if there is no such key.
type Row struct {
	Status   idempotency.Status
	LeaseEnd time.Time
}

// books are what the mock PSP has of a key, and the rates of its faults.
type books struct {
	Read     bool // otherwise nothing is known
	Charges  int  // that succeeded
	Requests int  // that could have charged
}

// observer keeps what was seen of the newest payment, so that all pages share one look.
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
	if stop := s.stopView(); stop != nil && stop.Phase == heldPhase {
		f.HeldAt = stop.Window.ID
	}
	f.Row, f.PSP, preset = s.seen.look(f.Key, f.Now, s.lookAt)
	return f, preset
}

// look looks again if the last look is too old or was at another key.
func (o *observer) look(
	key string, now time.Time, at func(*observer),
) (Row, books, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key != o.key {
		o.key, o.row, o.psp, o.at = key, Row{}, books{}, time.Time{}
	}
	if now.Sub(o.at) >= lookEvery/2 {
		at(o)
		o.at = now
	}
	return o.row, o.psp, o.preset
}

// lookAt reads the row and the PSP's books. What cannot be read stays as it was.
func (s *Controls) lookAt(o *observer) {
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
			o.row = row
		}
	}
	if b, err := s.readBooks(ctx, o.key); err == nil {
		o.psp = b
	}
}

// readBooks asks the mock PSP what it has charged under a key, and how often it was asked to.
func (s *Controls) readBooks(ctx context.Context, key string) (books, error) {
	ledger, err := s.ledgerOf(ctx, key)
	if err != nil {
		return books{}, err
	}
	b := books{Read: true}
	for _, sent := range s.config.ChargeKeys(key) {
		query := url.Values{"account": {s.config.Account}, "idempotencyKey": {sent}}.Encode()
		raw, err := s.askPSP(ctx, "GET", "/_requests?"+query, "")
		if err != nil {
			return books{}, err
		}
		var calls struct {
			Posts int `json:"posts"`
		}
		if err := json.Unmarshal(raw, &calls); err != nil {
			return books{}, err
		}
		b.Requests += calls.Posts
	}
	for _, c := range ledger {
		if c.Status == "succeeded" {
			b.Charges++
		}
	}
	return b, nil
}
