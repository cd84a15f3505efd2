package invariants

import (
	"bytes"
	"context"
	_ "embed" // archive.sql
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/lab/history"
)

// expiryTolerance is between readings of the database's clock in one statement that has waited for a lock.
const expiryTolerance = 2 * time.Second

// kept is the part of I3 about how long an answer stands: a key is kept for a whole retention from when it was last
// reserved, or resolved by evidence, and its clients were told so.
func kept(w world, e Evidence) []Violation {
	var found []Violation
	last := w.books.lastTaken()
	if e.Retention > 0 {
		for name, k := range w.books.keys {
			if least := last[name].Add(e.Retention); k.Expires.Sub(least).Abs() > expiryTolerance {
				found = append(found, Violation{"I3", name.String(),
					fmt.Sprintf("it expires %s, and by its retention %s", stampOf(&k.Expires), stampOf(&least))})
			}
		}
	}
	for _, o := range e.History {
		if !keyed(o) || !o.Answered() {
			continue
		}
		k := w.books.keys[nameOf(o)]
		m := w.books.named(o)
		if k == nil || m == nil && (o.Status != http.StatusUnprocessableEntity || o.At.Before(k.Reserved)) ||
			m != nil && m.ID != k.Subject {
			continue // it is about another generation, or about none
		}
		if wrong := k.toldExpiry(o, e.Retention); wrong != "" {
			found = append(found, Violation{"I3", nameOf(o).String(),
				fmt.Sprintf("client %d was answered %d: %s", o.Client, o.Status, wrong)})
		}
	}
	return found
}

// lastTaken is when each key was last reserved, completed by evidence, or found to be free, which begins its retention.
func (b *books) lastTaken() map[keyName]time.Time {
	last := map[keyName]time.Time{}
	for name, k := range b.keys {
		last[name] = k.Reserved
	}
	for _, e := range b.events {
		name := keyName{e.Tenant, e.Operation, e.Key}
		k := b.keys[name]
		begins := e.To == string(idempotency.InProgressStatus) || e.To == string(idempotency.CompletedStatus) ||
			e.From == string(idempotency.UnknownStatus) && e.To == string(idempotency.FailedRetryableStatus)
		if k != nil && e.From != e.To && begins && e.Generation == k.Generation && e.At.After(last[name]) {
			last[name] = e.At
		}
	}
	return last
}

// toldExpiry holds the header against the row. A final answer names the very time; an earlier one what was true then.
func (k *keyRow) toldExpiry(o history.Operation, retention time.Duration) string {
	header := o.Header.Get("Idempotency-Key-Expires")
	told, err := http.ParseTime(header)
	if err != nil {
		return "" // whether there has to be one, surfaces looks at
	}
	whole := k.Expires.UTC().Truncate(time.Second)
	switch {
	case isFinal(o) && !told.Equal(whole):
		return fmt.Sprintf("Idempotency-Key-Expires is %q, and the key expires at %q", header,
			whole.Format(http.TimeFormat))
	case told.After(whole):
		return fmt.Sprintf("Idempotency-Key-Expires is %q, and the key expires earlier, at %q", header,
			whole.Format(http.TimeFormat))
	case retention > 0 && told.Before(k.Reserved.Add(retention-expiryTolerance)):
		return fmt.Sprintf("Idempotency-Key-Expires is %q, less than a retention of %s after the reservation", header,
			retention)
	}
	return ""
}

//go:embed archive.sql
var archive string

// Archive has a database keep what ends in it: keys that are deleted or used for another payment, and their timelines.
// Without it, a run in which keys end cannot be judged.
func Archive(ctx context.Context, db *pgxpool.Pool) error {
	if _, err := db.Exec(ctx, archive); err != nil {
		return fmt.Errorf("keep what ends: %w", err)
	}
	return nil
}

const hasArchive = `SELECT to_regclass('lab.ended_keys') IS NOT NULL`

// endedKey is the row of a key at the end of a life.
type endedKey struct {
	keyRow

	EndedBy     string // "delete", or "update" for a key that stands for another payment by now
	Transaction string
}

// endedEvent is a line of a timeline that was deleted with its key.
type endedEvent struct {
	eventRow

	Transaction string
}

// timeline is that of one row, from its INSERT to its DELETE, or to now.
type timeline struct {
	row    *keyRow
	events []eventRow
	again  bool // the key was deleted, before or since
}

// first is the generation that it begins with. A key that was deleted and is used again goes on counting, which
// namedOnce looks at.
func (t timeline) first() int32 {
	switch {
	case !t.again:
		return 1
	case len(t.events) > 0:
		return t.events[0].Generation
	}
	return t.row.Generation
}

// readLives finds the key of each payment and refund, as it stands or as it stood at its end, and the timelines of keys
// that were deleted. Their lines come before those of a key that was used again.
func (b *books) readLives(ctx context.Context, tx pgx.Tx) error {
	b.lives, b.kept = map[uuid.UUID]*keyRow{}, b.events
	for _, k := range b.keys {
		b.lives[k.Subject] = k
	}
	var kept bool
	if err := tx.QueryRow(ctx, hasArchive).Scan(&kept); err != nil || !kept {
		return err
	}
	// The same columns as of what stands.
	readEndedKeys := strings.Replace(readKeys, "FROM idempotency_keys AS k",
		", k.ended_by, k.transaction::text FROM lab.ended_keys AS k", 1)
	keys, err := collect(ctx, tx, readEndedKeys, pgx.RowToStructByPos[endedKey])
	if err != nil {
		return err
	}
	readEndedEvents := strings.Replace(readEvents, "FROM idempotency_key_events",
		", transaction::text FROM lab.ended_events", 1)
	events, err := collect(ctx, tx, readEndedEvents, pgx.RowToStructByPos[endedEvent])
	if err != nil {
		return err
	}
	if b.reopened, err = collect(ctx, tx, `SELECT format('%s, which was %s, became %s', psp_id, status, became)
		FROM lab.reopened_disputes`, pgx.RowTo[string]); err != nil {
		return err
	}
	deleted := map[string][]eventRow{}
	var all []eventRow
	for _, e := range events {
		name := keyName{e.Tenant, e.Operation, e.Key}.String() + " " + e.Transaction
		deleted[name] = append(deleted[name], e.eventRow)
		all = append(all, e.eventRow)
	}
	for i := range keys {
		k := &keys[i]
		b.lives[k.Subject] = &k.keyRow
		if k.EndedBy == "delete" {
			b.ended = append(b.ended, timeline{row: &k.keyRow, events: deleted[k.name().String()+" "+k.Transaction]})
		}
	}
	b.events = append(all, b.events...)
	return nil
}

// keyMove is that a key was moved to a status in a generation.
type keyMove struct {
	keyGeneration

	to string
}

// noteMoves notes the moves of all timelines, also of those that were deleted.
func (b *books) noteMoves() {
	b.moves = map[keyMove]bool{}
	for _, e := range b.events {
		if e.From != e.To {
			b.moves[keyMove{keyGeneration{keyName{e.Tenant, e.Operation, e.Key}, e.Generation}, e.To}] = true
		}
	}
}

// hasBeen reports whether the key of a payment or a refund was ever moved to the status, while it stood for that.
func (b *books) hasBeen(m *movementRow, to idempotency.Status) bool {
	return m != nil && b.moves[keyMove{keyGeneration{m.keyName(), m.Generation}, string(to)}]
}

// neverSo says that a payment or a refund was never what an event tells, or "". What has succeeded or was declined
// stays so; only the money of a refund may come back. The other statuses pass, and leave a line in the timeline of the
// key. Without own, it is a refund of others, which has no key.
func (b *books) neverSo(told, final string, own *movementRow) string {
	so := true
	switch told {
	case string(payment.Succeeded):
		so = final == told || final == string(payment.Reversed)
	case string(payment.Declined):
		so = final == told
	case string(payment.Failed):
		so = final == string(payment.Reversed) || b.hasBeen(own, idempotency.FailedRetryableStatus)
	case string(idempotency.UnknownStatus):
		so = b.hasBeen(own, idempotency.UnknownStatus)
	}
	if !so {
		return fmt.Sprintf("was never %s, it is %s", told, final)
	}
	return ""
}

// timelineOf is that of a key that is there.
func (b *books) timelineOf(k *keyRow) timeline {
	events := slices.DeleteFunc(slices.Clone(b.kept),
		func(e eventRow) bool { return keyName{e.Tenant, e.Operation, e.Key} != k.name() })
	return timeline{k, events, b.wasDeleted(k.name())}
}

// wasDeleted reports whether an earlier row of the key was deleted.
func (b *books) wasDeleted(name keyName) bool {
	return slices.ContainsFunc(b.ended, func(t timeline) bool { return t.row.name() == name })
}

// lifeOf is the life of a key that a final or an accepting answer is about: the one that stands for what the answer
// names.
func (b *books) lifeOf(o history.Operation) *keyRow {
	if m := b.named(o); m != nil {
		if k := b.lives[m.ID]; k != nil && k.name() == nameOf(o) {
			return k
		}
	}
	return b.keys[nameOf(o)]
}

// namedOnce is I1 of what a key stands for: a key and its generation are one payment or refund, also when the key was
// deleted in between. Ids grow with time, and so do generations.
func namedOnce(w world) []Violation {
	of := map[keyName][]*movementRow{}
	for _, m := range w.books.subjects {
		name := m.keyName()
		of[name] = append(of[name], m)
	}
	var found []Violation
	for name, all := range of {
		slices.SortFunc(all, func(a, b *movementRow) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		for i, m := range all[1:] {
			if before := all[i]; m.Generation <= before.Generation {
				found = append(found, Violation{"I1", name.String(),
					fmt.Sprintf("%s is generation %d of the key, and %s before it was generation %d",
						m, m.Generation, before, before.Generation)})
			}
		}
	}
	return found
}
