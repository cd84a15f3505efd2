package idempotency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// maxEvents bounds a timeline. A key takes a handful of transitions in its life; of one with more, the end is shown.
const maxEvents = 200

// ErrNoKey says that the tenant has no such key for the operation.
var ErrNoKey = errors.New("no such key")

// Event is a transition off the happy path.
type Event struct {
	At         time.Time
	Actor      string
	From, To   Status
	Attempt    int32
	Generation int32
	Reason     string
	Evidence   []byte // JSON, or nil
}

// Timeline is the key's life: what is written down of it, with the two steps of the happy path that are not, since the row itself tells
// them.
func (r Record) Timeline(written []Event) []Event {
	born := Event{
		At: r.Created, Actor: "request", To: InProgressStatus, Attempt: 1, Generation: r.Generation, Reason: "reserved",
	}
	if len(written) > 0 {
		born.Generation = written[0].Generation // not always 1: a key that was deleted goes on from its last generation
	}
	timeline := append([]Event{born}, written...)
	// Of a timeline that was cut short, nobody knows what it would have told.
	told := len(written) >= maxEvents || slices.ContainsFunc(written, func(e Event) bool {
		return e.To == CompletedStatus && e.From != CompletedStatus && e.Generation == r.Generation
	})
	if r.Response != nil && !told {
		timeline = append(timeline, Event{
			At: *r.Finished, Actor: "owner", From: InProgressStatus, To: CompletedStatus, Attempt: r.Attempt, Generation: r.Generation,
			Reason: "the PSP answered; the response is stored",
		})
		// Confirmations by webhooks come after it, and are written down.
		slices.SortStableFunc(timeline, func(a, b Event) int { return a.At.Compare(b.At) })
	}
	return timeline
}

// Find reads a key's row, or fails with ErrNoKey.
func (k *Keys) Find(ctx context.Context, ref Ref) (Record, error) {
	row, err := k.find(ctx, ref)
	if err != nil {
		return Record{}, err
	}
	return fromRow(ref, row).Record, nil
}

// Peek decides as a reservation would, without taking the key: Execute when the row carries the claim's own lease. It is nil for a key without
// a row.
func (k *Keys) Peek(ctx context.Context, c Claim) (Decision, error) {
	row, err := k.find(ctx, c.Ref)
	return peeked(c, row, err)
}

func peeked(c Claim, row dbsqlc.FindKeyRow, err error) (Decision, error) {
	if errors.Is(err, ErrNoKey) {
		return nil, nil //nolint:nilnil // no row, no decision: the key is free
	}
	if err != nil {
		return nil, err
	}
	return claimed(c, row), nil
}

// InFlight tells which of these keys are executed now, under a lease that is not over: in one statement, whatever their number.
func (k *Keys) InFlight(ctx context.Context, refs []Ref) (map[Ref]bool, error) {
	p := dbsqlc.ListInFlightParams{
		TenantIds: make([]string, len(refs)), Operations: make([]string, len(refs)), Keys: make([]string, len(refs)),
	}
	for i, ref := range refs {
		p.TenantIds[i], p.Operations[i], p.Keys[i] = ref.Tenant, string(ref.Operation), ref.Key.value
	}
	rows, err := dbsqlc.New(k.db.Reader()).ListInFlight(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look at keys: %w", err)
	}
	inFlight := make(map[Ref]bool, len(rows))
	for _, r := range rows {
		inFlight[StoredRef(r.TenantID, r.Operation, r.Key)] = true
	}
	return inFlight, nil
}

// Events reads a key's timeline, oldest first, at most the last 200 lines of it.
func (k *Keys) Events(ctx context.Context, ref Ref) ([]Event, error) {
	rows, err := dbsqlc.New(k.db.Reader()).ListEvents(ctx, dbsqlc.ListEventsParams{
		TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.value, MaxEvents: maxEvents,
	})
	if err != nil {
		return nil, fmt.Errorf("read timeline: %w", err)
	}
	var events []Event
	for _, r := range rows {
		events = append(events, Event{
			At: r.At, Actor: r.Actor, From: Status(r.FromStatus), To: Status(r.ToStatus),
			Attempt: r.Attempt, Generation: r.Generation, Reason: r.Reason, Evidence: r.Evidence,
		})
	}
	slices.Reverse(events)
	return events, nil
}

func (k *Keys) find(ctx context.Context, ref Ref) (dbsqlc.FindKeyRow, error) {
	row, err := dbsqlc.New(k.db.Reader()).FindKey(ctx, dbsqlc.FindKeyParams{TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.value})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return row, ErrNoKey
	case err != nil:
		return row, fmt.Errorf("find key: %w", err)
	}
	return row, nil
}
