package idempotency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// MaxEvents is how many lines of a timeline are read. A key has few transitions. Of a longer timeline, the newest lines
// are read.
const MaxEvents = 200

// ErrNoKey says that the tenant has no such key for the operation.
var ErrNoKey = errors.New("no such key")

// Event is a stored line of a timeline. The two transitions of the normal case are not stored.
// The order of the fields is the order of the JSON members that the public API and the operator's API show.
type Event struct {
	At         Time           `json:"at"`
	Actor      string         `json:"actor"`
	From       Status         `json:"from,omitempty"`
	To         Status         `json:"to"`
	Attempt    int32          `json:"attempt"`
	Generation int32          `json:"generation"`
	Reason     string         `json:"reason"`
	Evidence   jsontext.Value `json:"evidence,omitzero"` // or nil
}

// Time is a time as the APIs show it: RFC 3339 in UTC with microseconds, which is the resolution of PostgreSQL. So a
// time has the same text before it is stored and after it is read. All texts have the same length, so they sort by
// time.
type Time time.Time

// Time is the time as Go has it.
func (t Time) Time() time.Time { return time.Time(t) }

// MarshalText writes the time.
func (t Time) MarshalText() ([]byte, error) {
	return t.Time().UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z"), nil
}

// Timeline is the whole timeline of a key. written are the stored lines. The reservation and the owner's completion are
// not stored, because the key's row tells them; Timeline adds them.
func (r KeyRow) Timeline(written []Event) []Event {
	born := Event{
		At: Time(r.Created), Actor: "request", To: InProgressStatus, Attempt: 1, Generation: r.Generation,
		Reason: "reserved",
	}
	if len(written) > 0 {
		born.Generation = written[0].Generation // A deleted key that is used again continues after its last generation.
	}
	timeline := append([]Event{born}, written...)
	// If lines were cut off, one of them may be the completion, so none is added.
	told := len(written) >= MaxEvents || slices.ContainsFunc(written, func(e Event) bool {
		return e.To == CompletedStatus && e.From != CompletedStatus && e.Generation == r.Generation
	})
	if r.Response != nil && !told {
		timeline = append(timeline, Event{
			At: Time(*r.Finished), Actor: "owner", From: InProgressStatus, To: CompletedStatus, Attempt: r.Attempt,
			Generation: r.Generation,
			Reason:     "the PSP answered; the response is stored",
		})
		// A webhook may have confirmed the payment later. Its line is stored, and must come after the completion.
		slices.SortStableFunc(timeline, func(a, b Event) int { return a.At.Time().Compare(b.At.Time()) })
	}
	return timeline
}

// Undecided says which of these keys are in progress or unknown. The value of a key says whether the key is in flight:
// executed now, under a lease that is not over. It takes one statement for all of the keys.
func (k *Keys) Undecided(ctx context.Context, refs []Ref) (inFlight map[Ref]bool, err error) {
	var p dbsqlc.ListUndecidedParams
	for _, ref := range refs {
		p.TenantIds = append(p.TenantIds, ref.Tenant)
		p.Operations = append(p.Operations, string(ref.Operation))
		p.Keys = append(p.Keys, ref.Key.value)
	}
	rows, err := dbsqlc.New(k.db.Reader()).ListUndecided(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look at keys: %w", err)
	}
	inFlight = make(map[Ref]bool, len(rows))
	for _, r := range rows {
		inFlight[StoredRef(r.TenantID, r.Operation, r.Key)] = r.InFlight
	}
	return inFlight, nil
}

// Events reads a key's timeline, oldest first, and at most its last 200 lines.
func (k *Keys) Events(ctx context.Context, ref Ref) ([]Event, error) {
	rows, err := dbsqlc.New(k.db.Reader()).ListEvents(ctx, dbsqlc.ListEventsParams{
		TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.value, MaxEvents: MaxEvents,
	})
	if err != nil {
		return nil, fmt.Errorf("read timeline: %w", err)
	}
	var events []Event
	for _, r := range rows {
		events = append(events, Event{
			At: Time(r.At), Actor: r.Actor, From: Status(r.FromStatus), To: Status(r.ToStatus),
			Attempt: r.Attempt, Generation: r.Generation, Reason: r.Reason, Evidence: r.Evidence,
		})
	}
	slices.Reverse(events)
	return events, nil
}

// KeyCounts is how many keys have each status.
type KeyCounts struct {
	ByStatus      map[Status]int64 // of a big table, the finished keys are estimated
	OldestUnknown time.Duration    // the age of the oldest unknown key; zero if there is none
}

// KeyCounts counts the keys.
func (k *Keys) KeyCounts(ctx context.Context) (KeyCounts, error) {
	rows, err := dbsqlc.New(k.db.Reader()).CountKeys(ctx)
	if err != nil {
		return KeyCounts{}, fmt.Errorf("count keys: %w", err)
	}
	counts := KeyCounts{ByStatus: make(map[Status]int64, len(rows))}
	for _, r := range rows {
		counts.ByStatus[Status(r.Status)] = r.Keys
		counts.OldestUnknown = max(counts.OldestUnknown, time.Duration(r.OldestSeconds*float64(time.Second)))
	}
	return counts, nil
}
