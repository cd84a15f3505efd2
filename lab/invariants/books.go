package invariants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/payment"
)

// books is the database at one instant.
type books struct {
	accounts     map[string]string // of the PSP, by tenant
	psps         map[string]string // the provider, by tenant
	keys         map[keyName]*keyRow
	gone         map[keyName]bool           // keys without a row that their tombstones hold
	subjects     map[uuid.UUID]*movementRow // payments and refunds
	deadLetters  []deadLetterRow            // by age
	byPSPID      map[string]*movementRow    // by the tenant's account and the PSP's id
	deadLettered map[string]bool            // the PSP's ids of the records that dead letters hold or name
	told         map[outsideName]bool       // the PSP's ids of the records that dead letters tell of about a payment
	auditEntries []auditRow                 // what operators did, or were refused, in order
	events       []eventRow                 // by key, in order
	outside      []outsideRow               // what others have done to payments
	reopened     []string                   // disputes that were over, and were not any more
	waiting      []string                   // what is still to be worked on beside keys
	feeds        map[string][]string        // the ids of the events of each tenant, in the order of their places

	lives map[uuid.UUID]*keyRow // the key of each payment and refund, also where it has ended
	ended []timeline            // of keys that were deleted
	kept  []eventRow            // the events of keys that were not
	moves map[keyMove]bool      // of all keys, by their timelines
}

// keyName names a key as its row does.
type keyName struct{ tenant, operation, key string }

func (n keyName) String() string { return n.tenant + " " + n.operation + " " + n.key }

type keyRow struct {
	Tenant, Operation   string
	Key                 string
	Status              string
	Attempt, Generation int32
	Subject             uuid.UUID
	ResponseStatus      *int16
	ResponseContentType *string
	ResponseLocation    *string
	ResponseBody        []byte
	Fingerprint         []byte
	Created, Reserved   time.Time
	LockedUntil         *time.Time
	Finished            *time.Time
	Expires             time.Time
	Held                bool // by an open dead letter
	Hold                string
}

func (k *keyRow) name() keyName { return keyName{k.Tenant, k.Operation, k.Key} }

// movementRow is a payment or a refund.
type movementRow struct {
	ID         uuid.UUID
	PaymentID  *uuid.UUID // of a refund
	Tenant     string
	Key        string
	Generation int32
	Amount     int64
	Currency   string
	Status     string
	PSPID      string
	Decline    string
	// Held, Refunded and Outside are the totals of a payment: what our refunds hold, what all refunds have moved, and
	// what others hold or have moved.
	Held, Refunded, Outside int64
	Created, Updated        time.Time
	Customer                string
	Method                  string
	Reference               string
	Description             string
	Metadata                []byte // JSON, or nil
	Reason                  string // of a refund
	ObjectID                string // the PSP's object that the payment is executed through, at a provider of two steps
}

// metadata is what the payment has, for a document.
func (m *movementRow) metadata() jsontext.Value {
	if m.Metadata == nil {
		return jsontext.Value("null")
	}
	return m.Metadata
}

// isFinal reports whether the PSP's verdict is in.
func (m *movementRow) isFinal() bool {
	return slices.Contains([]string{string(payment.Succeeded), string(payment.Declined), string(payment.Reversed)},
		m.Status)
}

// pspID is the PSP's id of a row that may be missing.
func (m *movementRow) pspID() string {
	if m == nil {
		return ""
	}
	return m.PSPID
}

// keyName names the key that the movement was written under.
func (m *movementRow) keyName() keyName { return keyName{m.Tenant, m.operation(), m.Key} }

func (m *movementRow) String() string {
	if m.PaymentID != nil {
		return payment.RefundID(m.ID).String()
	}
	return payment.ID(m.ID).String()
}

type deadLetterRow struct {
	Kind    string
	Finding string
	Subject *uuid.UUID
	Status  string
	Action  string

	ID           uuid.UUID
	Tenant       string // "" of a dead letter about no key, as the three that follow
	Operation    string
	Key          string
	Generation   int32
	Reason       string
	Evidence     []byte
	Opened       time.Time
	Version      int32
	Resolved     *time.Time
	Actor, Words string // who resolved it, and why
}

// concerns reports whether the key still stands for what the dead letter is about.
func (l deadLetterRow) concerns(k *keyRow) bool {
	return k.Generation == l.Generation && (l.Subject == nil || *l.Subject == k.Subject)
}

// auditRow is a line of the operators' audit trail.
type auditRow struct {
	DeadLetter                             uuid.UUID
	At                                     time.Time
	Actor, Action, Reason, Outcome, Detail string
	Version                                int32
}

type eventRow struct {
	Tenant, Operation   string
	Key                 string
	Generation, Attempt int32
	At                  time.Time
	Actor               string
	From, To            string
	Reason              string
	Evidence            []byte
}

const (
	readKeys = `
SELECT k.tenant_id, k.operation, k.key, k.status, k.attempt, k.generation, k.subject,
       k.response_status, k.response_content_type, k.response_location, k.response_body,
       k.fingerprint, k.created_at, k.reserved_at, k.locked_until, k.finished_at, k.expires_at,
       coalesce(d.held, false) OR k.dead_letter_hold = 'decline' AS held, k.dead_letter_hold::text
FROM idempotency_keys AS k
LEFT JOIN (SELECT DISTINCT tenant_id, operation, key, generation, true AS held FROM dead_letters
           WHERE status = 'open' AND kind <> 'job_discarded' AND key IS NOT NULL OFFSET 0) AS d
     ON d.tenant_id = k.tenant_id AND d.operation = k.operation AND d.key = k.key AND d.generation = k.generation`
	readMovements = `
SELECT id, NULL::uuid AS payment_id, tenant_id, idempotency_key, generation, amount_minor, currency, status,
       coalesce(psp_charge_id, ''), coalesce(decline_code, ''), refund_held_minor, refunded_minor, moved_outside_minor, created_at, coalesce(updated_at, created_at),
       customer_id, payment_method, coalesce(reference, ''), coalesce(description, ''), metadata, '', coalesce(psp_object_id, '') FROM payments
UNION ALL
SELECT id, payment_id, tenant_id, idempotency_key, generation, amount_minor, currency, status,
       coalesce(psp_refund_id, ''), coalesce(decline_code, ''), 0, 0, 0, created_at, coalesce(updated_at, created_at), '', '', '', '', NULL, coalesce(reason, ''), '' FROM refunds WHERE origin = 'api'`
	readDeadLetters = `
SELECT kind, finding, subject, status, coalesce(action, ''), id, coalesce(tenant_id, ''), coalesce(operation, ''), coalesce(key, ''),
       coalesce(generation, 0), reason, evidence, opened_at, version, resolved_at, coalesce(actor, ''), coalesce(resolution_reason, '')
FROM dead_letters ORDER BY opened_at, id`
	readAudit = `
SELECT dead_letter_id, at, actor, action, reason, outcome, detail, dead_letter_version FROM operator_actions WHERE dead_letter_id IS NOT NULL ORDER BY id`
	readEvents = `
SELECT tenant_id, operation, key, generation, attempt, at, actor, from_status, to_status, reason, evidence
FROM idempotency_key_events ORDER BY tenant_id, operation, key, id`
	// A job about a key that an operator has comes again and again: it is no sign of unrest.
	readWaiting = `
SELECT 'webhook ' || id FROM webhook_events WHERE processed_at IS NULL
UNION ALL
SELECT format('job %s %s, %s', j.kind, j.id, j.state) FROM river_job AS j
WHERE j.kind IN ('webhook', 'resolve', 'evidence') AND j.state IN ('available', 'running')
  AND NOT EXISTS (SELECT FROM dead_letters AS d WHERE d.status = 'open' AND d.tenant_id = j.args ->> 'tenant'
      AND d.operation = j.args ->> 'operation' AND d.key = j.args ->> 'key')
UNION ALL
SELECT format('event of payment %s, version %s', payment_id, version) FROM events WHERE position IS NULL
UNION ALL
SELECT format('delivery to endpoint %s of payment %s, version %s', d.endpoint_id, d.payment_id, d.version)
FROM event_deliveries AS d JOIN webhook_endpoints AS w ON w.tenant_id = d.tenant_id AND w.id = d.endpoint_id
WHERE d.due_at IS NOT NULL AND w.deleted_at IS NULL AND w.disabled_at IS NULL`
)

// readBooks reads everything in one snapshot.
func readBooks(ctx context.Context, db *pgxpool.Pool) (*books, error) {
	b := &books{accounts: map[string]string{}, psps: map[string]string{},
		keys: map[keyName]*keyRow{}, gone: map[keyName]bool{}, subjects: map[uuid.UUID]*movementRow{}}
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "SELECT id, psp_account, psp FROM tenants")
			if err != nil {
				return err
			}
			var tenant, account, psp string
			_, err = pgx.ForEachRow(rows, []any{&tenant, &account, &psp}, func() error {
				b.accounts[tenant], b.psps[tenant] = account, psp
				return nil
			})
			keys, keysErr := collect(ctx, tx, readKeys, pgx.RowToStructByPos[keyRow])
			for _, k := range keys {
				b.keys[k.name()] = &k
			}
			var outsideErr error
			b.outside, outsideErr = collect(ctx, tx, readOutside, pgx.RowToStructByPos[outsideRow])
			movements, movementsErr := collect(ctx, tx, readMovements, pgx.RowToStructByPos[movementRow])
			for _, m := range movements {
				b.subjects[m.ID] = &m
			}
			var deadLettersErr, auditErr, eventsErr, waitingErr error
			b.deadLetters, deadLettersErr = collect(ctx, tx, readDeadLetters, pgx.RowToStructByPos[deadLetterRow])
			b.auditEntries, auditErr = collect(ctx, tx, readAudit, pgx.RowToStructByPos[auditRow])
			b.events, eventsErr = collect(ctx, tx, readEvents, pgx.RowToStructByPos[eventRow])
			b.waiting, waitingErr = collect(ctx, tx, readWaiting, pgx.RowTo[string])
			return errors.Join(err, keysErr, movementsErr, deadLettersErr, auditErr, eventsErr, waitingErr, outsideErr,
				b.readLives(ctx, tx), b.readGone(ctx, tx), b.readFeeds(ctx, tx))
		})
	b.noteNamed()
	b.noteMoves()
	b.byPSPID = map[string]*movementRow{}
	for _, m := range b.subjects {
		b.byPSPID[b.accounts[m.Tenant]+" "+m.PSPID] = m
	}
	return b, err
}

func collect[T any](ctx context.Context, tx pgx.Tx, sql string, to pgx.RowToFunc[T]) ([]T, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, to)
}

// subjectOf reads an entry's reference as the row that it names, or nil.
func (b *books) subjectOf(e Entry) *movementRow {
	id, err := subjectOf(e.Reference)
	if err != nil {
		return nil
	}
	return b.subjects[id]
}

// deadLetterVersions tells one state of all dead letters from another.
func (b *books) deadLetterVersions() []string {
	versions := make([]string, 0, len(b.deadLetters))
	for _, l := range b.deadLetters {
		versions = append(versions, fmt.Sprintf("%s %d", l.ID, l.Version))
	}
	slices.Sort(versions)
	return versions
}

const readPlaces = `
SELECT tenant_id, payment_id, version FROM events WHERE position IS NOT NULL ORDER BY position`

// readFeeds reads the ids of the events of each tenant, in the order of their places.
func (b *books) readFeeds(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, readPlaces)
	if err != nil {
		return err
	}
	var tenant string
	var id uuid.UUID
	var version int64
	b.feeds = map[string][]string{}
	_, err = pgx.ForEachRow(rows, []any{&tenant, &id, &version}, func() error {
		_, of, _ := strings.Cut(payment.ID(id).String(), "_")
		b.feeds[tenant] = append(b.feeds[tenant], fmt.Sprintf("evt_%s_%d", of, version))
		return nil
	})
	return err
}
