package psp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// DefaultLimit is how many charges a ledger holds unless it is told otherwise.
const DefaultLimit = 1 << 19

const (
	statusSucceeded = "succeeded"
	statusDeclined  = "declined"
	declined        = "pm_declined" // the payment method that is refused; all others are good
)

// charge is an entry of the ledger as the API shows it.
type charge struct {
	ID             string `json:"id"`
	Object         string `json:"object"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	AmountCents    int64  `json:"amountCents"`
	Currency       string `json:"currency"`
	PaymentMethod  string `json:"paymentMethod,omitzero"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode,omitzero"`
	CreatedAt      string `json:"createdAt"`
}

// asked is what a client may choose of a charge.
type asked struct {
	AmountCents   int64  `json:"amountCents"`
	Currency      string `json:"currency"`
	PaymentMethod string `json:"paymentMethod,omitzero"`
	Reference     string `json:"reference"`
}

// keyRef names an intended charge.
type keyRef struct{ account, key string }

// entry is a charge in the ledger: the bytes that every answer about it has.
type entry struct {
	asked    asked
	rendered []byte
}

func (e entry) declined() bool { return e.asked.PaymentMethod == declined }

var (
	errFull     = errors.New("the ledger is full")
	errMismatch = errors.New("this key was sent before with another body")
)

type ledger struct {
	limit int

	mu      sync.RWMutex
	charges map[keyRef]entry
}

func newLedger(limit int) *ledger { return &ledger{limit: limit, charges: map[keyRef]entry{}} }

// charge makes the charge, or finds it made.
func (l *ledger) charge(ref keyRef, a asked) (entry, error) {
	if known, ok := l.find(ref); ok {
		return known.unless(a)
	}
	made, err := render(ref, a)
	if err != nil {
		return entry{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.charges[ref]; ok { // made meanwhile
		return known.unless(a)
	}
	if len(l.charges) >= l.limit {
		return entry{}, errFull
	}
	l.charges[ref] = made
	return made, nil
}

func (e entry) unless(a asked) (entry, error) {
	if e.asked != a {
		return entry{}, errMismatch
	}
	return e, nil
}

func (l *ledger) find(ref keyRef) (entry, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	e, ok := l.charges[ref]
	return e, ok
}

func (l *ledger) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charges = map[keyRef]entry{}
}

func render(ref keyRef, a asked) (entry, error) {
	c := charge{
		ID: "ch_" + strings.ToLower(rand.Text()), Object: "charge", Account: ref.account, IdempotencyKey: ref.key,
		Reference:   a.Reference,
		AmountCents: a.AmountCents, Currency: a.Currency, PaymentMethod: a.PaymentMethod, Status: statusSucceeded,
		CreatedAt: time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
	e := entry{asked: a}
	if e.declined() {
		c.Status, c.DeclineCode = statusDeclined, "insufficient_funds"
	}
	var err error
	if e.rendered, err = json.Marshal(c); err != nil {
		return entry{}, fmt.Errorf("render charge: %w", err)
	}
	return e, nil
}
