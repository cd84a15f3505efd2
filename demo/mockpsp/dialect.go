package mockpsp

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The seam for another dialect: a package that speaks the wire format of another provider, on a port of its own, over
// the same ledger, file, faults and log of calls. A dialect keeps its objects itself. The ledger knows only the
// movements of money among them, and keeps the rest as notes that it cannot read.

// Movement is a charge, a refund or a dispute as the ledger shows it. The ledger fills in CreatedAt. A refund or a
// dispute with an id that the ledger knows is a further version of it.
type Movement = entry

// Booking is what a dialect puts on one line of the ledger's file: all of it is durable, or none.
type Booking struct {
	Movement *Movement // nil if no money has moved and none was refused
	Fault    string    // that was acted out
	Note     any       // what the dialect needs to know after a restart; rendered as JSON
}

// Line is a booking that is to be written. Both functions are called by the ledger's writer, one line at a time and in
// the order of the file, while the caller of [Server.Write] waits. They must not call the Server.
type Line struct {
	// Prepare returns the booking. At is the time of the line; times grow strictly.
	Prepare func(at time.Time) (Booking, error)
	// Publish makes the booking visible. It is called once the line is durable.
	Publish func()
}

// Write returns when the line is durable and published. An error leaves open whether it was written.
func (s *Server) Write(line *Line) error {
	return s.ledger.write(&record{dialect: true, line: line})
}

// TakeNotes returns the notes that the ledger's file had at the start, oldest first, and lets go of them.
func (s *Server) TakeNotes() []jsontext.Value {
	notes := s.ledger.notes
	s.ledger.notes = nil
	return notes
}

// Config returns what the server was made with.
func (s *Server) Config() Config { return s.config }

// OnForget is called for each DELETE /_keys. Forget returns how many keys of the dialect it has forgotten. It is set
// before the server serves.
func (s *Server) OnForget(forget func(account, key string) (int, error)) { s.forgetDialect = forget }

// OutboxConfig says where the webhooks of a dialect go.
type OutboxConfig struct {
	URL    string // empty tells nobody
	Suffix string // of the file beside the ledger that knows which webhooks have ended
	Sign   Signer
	// Find returns what an id names, for the webhooks that are sent by hand, or nil.
	Find func(id string) Subject
}

// NewOutbox goes on with the webhooks, of all that are there, which have not ended. The server closes the outbox. It is
// called before the server serves.
func (s *Server) NewOutbox(of OutboxConfig, all []Subject) (*Outbox, error) {
	config, path := s.config, ""
	config.WebhookURL = of.URL
	if config.LedgerPath != "" {
		path = config.LedgerPath + of.Suffix
	}
	outbox, err := newOutbox(config, path, of.Sign, s.webhooks.disorders, all)
	if err != nil {
		return nil, err
	}
	outbox.find, s.outbox = of.Find, outbox
	return outbox, nil
}

// prepareDialect lets the dialect complete its draft. Only the writer calls it.
func (l *ledger) prepareDialect(draft *record) error {
	at := l.nextCreatedAt()
	booking, err := draft.line.Prepare(at)
	if err != nil {
		return err
	}
	note, err := json.Marshal(booking.Note, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("render note: %w", err)
	}
	draft.Note, draft.Fault = note, fault(booking.Fault)
	if booking.Movement != nil {
		draft.Entry = *booking.Movement
		draft.Entry.CreatedAt = at.Format(timeLayout)
		if before := l.prepared[draft.Entry.ID]; before != nil {
			draft.Version, draft.ChangedAt = before.Version+1, draft.Entry.CreatedAt
			draft.Entry.CreatedAt = before.Entry.CreatedAt
			draft.Entry.IdempotencyKey = cmp.Or(draft.Entry.IdempotencyKey, before.Entry.IdempotencyKey)
		}
		l.notePrepared(draft)
	}
	return nil
}

// publishDialect shows the movement in the views of the whole ledger. Keys, lists and lookups of this dialect do not
// know it. The caller holds l.mu, or is the replay.
func (l *ledger) publishDialect(r *record) {
	if r.line != nil {
		r.line.Publish()
	}
	r.Note, r.line = nil, nil // the dialect has it
	if !r.isNote() {
		l.all = append(l.all, r)
		l.newest[r.Entry.ID] = r
	}
}

// notePrepared notes a refund or a dispute of a dialect. A charge is charged once, and has no versions.
func (l *ledger) notePrepared(r *record) {
	if r.Entry.Object != ObjectCharge {
		l.prepared[r.Entry.ID] = r
	}
}

// restoreDialect takes back a line of a dialect.
func (l *ledger) restoreDialect(r *record) error {
	r.dialect = true
	l.notes = append(l.notes, r.Note)
	if !r.isNote() {
		if err := l.restoreTime(r); err != nil {
			return err
		}
		l.notePrepared(r)
	}
	l.publish(r)
	return nil
}
