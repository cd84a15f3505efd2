package invariants

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

const (
	watchers = 4
	// askTimeout bounds how long a send waits for the question about it.
	askTimeout = 2 * time.Second
	// tolerance is how far two readings of the machine's clock may lie apart, one of them by the database.
	tolerance = 50 * time.Millisecond
)

// Reservations asks the database, at the moment when a request to move money arrives at the PSP, whether it was
// reserved: committed, and by then. It is called by whatever stands in front of the PSP, and answers before the request
// goes on.
type Reservations struct {
	pool    *pgxpool.Pool
	find    string // the query
	objects string // the query for the object of a payment

	mu         sync.Mutex
	arrivals   int
	violations []Violation
	late       map[string]int
	unasked    []arrival // the database did not answer then
}

type arrival struct {
	account, key string
	sent         sent
	at           time.Time

	// At Stripe:
	step    stripeStep
	attempt int32  // that the step is sent for; 0: not known
	object  string // that is confirmed
}

// sent is the body of a request to move money, which the PSP gets to see.
type sent struct {
	Reference     string `json:"reference"`
	AmountCents   int64  `json:"amountCents"`
	Currency      string `json:"currency"`
	PaymentMethod string `json:"paymentMethod"` // of a charge
	Reason        string `json:"reason"`        // of a refund
}

// WatchReservations opens a small pool of its own: the pools of those who are watched may be exhausted. url leads
// straight to the database.
func WatchReservations(ctx context.Context, url string) (*Reservations, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read connection string: %w", err)
	}
	config.MaxConns = watchers
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	o := &Reservations{pool: pool, find: findReservation, objects: findObject, late: map[string]int{}}
	var kept bool
	_ = pool.QueryRow(ctx, hasArchive).Scan(&kept) // a database that is away is asked later, without an archive
	if kept {                                      // a question that was put off may find its key ended
		ever := strings.NewReplacer("FROM idempotency_keys AS k", "FROM "+everReserved+" AS k",
			"/* or was */", orWas)
		o.find, o.objects = ever.Replace(findReservation), ever.Replace(findObject)
	}
	return o, nil
}

const everReserved = `(SELECT tenant_id, operation, key, generation, attempt, subject, reserved_at, status, locked_until FROM idempotency_keys
       UNION ALL SELECT tenant_id, operation, key, generation, attempt, subject, reserved_at, status, locked_until FROM lab.ended_keys)`

// Close closes the pool.
func (o *Reservations) Close() { o.pool.Close() }

// Arrived notes a request that has arrived at the PSP, and has not been let through yet. Where the database does not
// answer, the question is put off: Violations asks it by the times that were written down.
func (o *Reservations) Arrived(ctx context.Context, account, key string, body []byte) {
	a := arrival{account: account, key: key, at: time.Now()}
	// without a reference, it is a send that nobody has reserved
	_ = json.Unmarshal(body, &a.sent)
	o.arrived(ctx, a)
}

func (o *Reservations) arrived(ctx context.Context, a arrival) {
	// the sender's end is no reason not to ask
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	why, status, err := o.missing(ctx, a)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arrivals++
	if status != "" && a.step != stripeCreate { // a lookup creates again what nobody owns any more
		o.late[status]++
	}
	switch {
	case err != nil:
		o.unasked = append(o.unasked, a)
	case why != "":
		o.violations = append(o.violations, a.violation(why))
	}
}

// Arrivals counts those that were noted, and those of them that could not be asked for yet.
func (o *Reservations) Arrivals() (all, unasked int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.arrivals, len(o.unasked)
}

// Late counts the arrivals whose key was nobody's any more, by how it stood: its status, or "lease over". Each was
// reserved once. It is no violation by itself, since a sender can be stopped between its last look at the clock and its
// packet, and a packet can be held on the way: where neither was done, there should be none. What could only be asked
// for later is not counted.
func (o *Reservations) Late() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.late)
}

// Violations asks what could not be asked before, and lists all sends without a reservation.
func (o *Reservations) Violations(ctx context.Context) ([]Violation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.unasked) > 0 {
		a := o.unasked[0]
		why, _, err := o.missing(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("ask for a reservation: %w", err)
		}
		if why != "" {
			o.violations = append(o.violations, a.violation(why))
		}
		o.unasked = o.unasked[1:]
	}
	return slices.Clone(o.violations), nil
}

func (a arrival) violation(why string) Violation {
	return Violation{"I9", a.account + " " + a.key,
		fmt.Sprintf("sent for %q without a reservation: %s", a.sent.Reference, why)}
}

// findReservation asks for the key and for the row that it stands for, which one transaction has written.
const findReservation = `
SELECT r.reserved_at, CASE WHEN r.status <> 'in_progress' THEN r.status WHEN r.locked_until <= clock_timestamp() THEN 'lease over' ELSE '' END,
       r.amount_minor, r.currency, r.payment_method, r.reason
FROM (SELECT k.reserved_at, k.status, k.locked_until, p.amount_minor, p.currency, p.payment_method, '' AS reason
      FROM idempotency_keys AS k JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject JOIN tenants AS t ON t.id = p.tenant_id
      WHERE k.tenant_id = t.id AND k.operation = 'POST /payments' AND k.key = $2 AND k.generation = $3 AND k.subject = $4 AND t.psp_account = $1
      UNION ALL
      SELECT k.reserved_at, k.status, k.locked_until, f.amount_minor, f.currency, '', coalesce(f.reason, '')
      FROM idempotency_keys AS k JOIN refunds AS f ON f.tenant_id = k.tenant_id AND f.id = k.subject JOIN tenants AS t ON t.id = f.tenant_id
      WHERE k.tenant_id = t.id AND k.operation = 'POST /payments/{id}/refunds' AND k.key = $2 AND k.generation = $3 AND k.subject = $4 AND t.psp_account = $1) AS r`

// missing says what there was no reservation of, or "". status is that of the key now, or "lease over". It is empty
// while an owner has the key.
func (o *Reservations) missing(ctx context.Context, a arrival) (why, status string, err error) {
	if a.step == stripeConfirm {
		return o.missingObject(ctx, a)
	}
	subject, err := subjectOf(a.sent.Reference)
	if err != nil {
		return "the reference is no id of ours", "", nil //nolint:nilerr // that is the finding
	}
	key, generation, err := idempotency.ParsePassThrough(a.key)
	if err != nil {
		return "the key is none that a client may choose", "", nil //nolint:nilerr // that is the finding
	}
	var reserved time.Time
	booked := sent{Reference: a.sent.Reference}
	err = o.pool.QueryRow(ctx, o.find, a.account, key.String(), generation, subject).
		Scan(&reserved, &status, &booked.AmountCents, &booked.Currency, &booked.PaymentMethod, &booked.Reason)
	if a.step == stripeRefund {
		booked.Currency = "" // it is that of the charge, and not sent
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "no key stands for it", "", nil
	case err != nil:
		return "", "", err
	case reserved.After(a.at.Add(tolerance)):
		return fmt.Sprintf("the key was reserved %s later", reserved.Sub(a.at)), "", nil
	case booked != a.sent:
		return fmt.Sprintf("what was reserved is %+v, and what was sent %+v", booked, a.sent), status, nil
	}
	return "", status, nil
}

var errNoID = errors.New("no id of ours")

// subjectOf reads an id of ours.
func subjectOf(reference string) (uuid.UUID, error) {
	switch {
	case strings.HasPrefix(reference, "pay_"):
		id, err := payment.ParseID(reference)
		return uuid.UUID(id), err
	case strings.HasPrefix(reference, "re_"):
		id, err := payment.ParseRefundID(reference)
		return uuid.UUID(id), err
	}
	return uuid.UUID{}, errNoID
}
