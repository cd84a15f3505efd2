package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Terms are the time limits of keys. They are measured by the database's clock, except MaxPause.
type Terms struct {
	Lease     time.Duration // the exclusive right to execute
	Retention time.Duration // how long a key is kept after its reservation
	PSPMemory time.Duration // after it, the PSP may have forgotten a key; no later attempt is sent

	// GracePeriod is how long a lookup that finds nothing proves nothing. It begins when the key becomes unknown.
	GracePeriod time.Duration
	// FirstLookup is how long an unknown key waits for a webhook before the PSP is asked. It is for a key that its
	// owner has made unknown.
	FirstLookup time.Duration
	// Audit is how long an expired key is kept before it is deleted.
	Audit time.Duration
}

// MaxPause is the longest time between asking for a lease and sending. A process that was paused for longer does not
// send.
func (t Terms) MaxPause() time.Duration { return t.Lease / 3 }

// Check refuses terms that would let a key be executed twice.
func (t Terms) Check() error {
	switch {
	case t.Lease <= 0:
		return errors.New("the lease must be positive")
	case t.GracePeriod < t.Lease:
		return errors.New("the grace period must not be shorter than the lease: an owner could still send")
	case t.PSPMemory <= t.GracePeriod:
		return errors.New("the grace period must be shorter than the PSP's memory of a key")
	case t.Retention < t.PSPMemory:
		return errors.New("retention must not be shorter than the PSP's memory of a key")
	case t.FirstLookup < 0 || t.Audit < 0:
		return errors.New("the first lookup's delay and the audit window must not be negative")
	}
	return nil
}

// Keys is the store of keys.
type Keys struct {
	db    *postgres.DB
	terms Terms
	now   func() time.Time
}

// New returns the store. now is used only to notice that this process was paused. The database decides whether a lease
// is over.
func New(db *postgres.DB, terms Terms, now func() time.Time) *Keys {
	return &Keys{db: db, terms: terms, now: now}
}

// Reservation is a request's try to reserve a key. If its acknowledgement was lost, the same Reservation is sent again.
type Reservation struct {
	Ref         Ref
	Fingerprint Fingerprint
	LeaseID     uuid.UUID // new and random; it identifies the lease
	Subject     uuid.UUID // the id of the domain object that is written if the key is new

	asked time.Time
}

// NewReservation begins a reservation. The time that MaxPause limits begins now.
func (k *Keys) NewReservation(ref Ref, f Fingerprint, leaseID, subject uuid.UUID) Reservation {
	return Reservation{Ref: ref, Fingerprint: f, LeaseID: leaseID, Subject: subject, asked: k.now()}
}

// Reserve is the call that reserves keys, or reads the rows that exist already. out gets a decision for each
// reservation, in order. A decision is nil if another request has committed after the statement's snapshot. Send that
// reservation again. The reservations must be of different keys.
func (k *Keys) Reserve(reservations []Reservation, out *[]Decision) postgres.Call {
	p := dbsqlc.ReserveKeysParams{Lease: k.terms.Lease, Retention: k.terms.Retention}
	for _, c := range reservations {
		p.TenantIds = append(p.TenantIds, c.Ref.Tenant)
		p.Operations = append(p.Operations, string(c.Ref.Operation))
		p.Keys = append(p.Keys, c.Ref.Key.value)
		p.Fingerprints = append(p.Fingerprints, c.Fingerprint[:])
		p.LeaseIds = append(p.LeaseIds, c.LeaseID)
		p.Subjects = append(p.Subjects, c.Subject)
	}
	p.OnlyTenant = k.db.OnlyTenant(p.TenantIds)
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).ReserveKeys(ctx, p)
		if err != nil {
			return err
		}
		found := make(map[Ref]dbsqlc.ReserveKeysRow, len(rows))
		for _, row := range rows {
			found[StoredRef(row.TenantID, row.Operation, row.Key)] = row
		}
		*out = make([]Decision, len(reservations))
		for i, c := range reservations {
			if row, ok := found[c.Ref]; ok {
				(*out)[i] = decisionOn(c, dbsqlc.FindKeyRow(row))
			}
		}
		return nil
	}
}

// Retake is the call that takes a free key again, under the reservation's lease: the next attempt of a failed_retryable
// key, or a new generation of an expired one. The decision is nil if the key is not free any more, or if the PSP may
// have forgotten it.
func (k *Keys) Retake(c Reservation, r Retake, out *Decision) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		row, err := k.sendRetake(ctx, dbsqlc.New(q), c, r)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			*out = nil
			return nil
		case err != nil:
			return err
		}
		*out = decisionOn(c, row)
		return nil
	}
}

func (k *Keys) sendRetake(ctx context.Context, q *dbsqlc.Queries, c Reservation, r Retake) (dbsqlc.FindKeyRow, error) {
	if r.Renews() {
		row, err := q.RenewKey(ctx, dbsqlc.RenewKeyParams{
			TenantID: c.Ref.Tenant, Operation: string(c.Ref.Operation), Key: c.Ref.Key.value,
			Fingerprint: c.Fingerprint[:],
			LeaseID:     c.LeaseID, Subject: c.Subject, Lease: k.terms.Lease, Retention: k.terms.Retention,
			Generation: r.Generation,
		})
		return dbsqlc.FindKeyRow(row), err
	}
	row, err := q.RetakeKey(ctx, dbsqlc.RetakeKeyParams{
		TenantID: c.Ref.Tenant, Operation: string(c.Ref.Operation), Key: c.Ref.Key.value, Fingerprint: c.Fingerprint[:],
		LeaseID: c.LeaseID, Lease: k.terms.Lease, Retention: k.terms.Retention,
		PspMemory: k.terms.PSPMemory - k.terms.Lease,
		Attempt:   r.Attempt, Generation: r.Generation,
	})
	return dbsqlc.FindKeyRow(row), err
}

// ExpireLease is the call that makes a key unknown whose lease is over. It writes nothing if somebody else has moved
// the key first. Read the key again afterwards.
func (k *Keys) ExpireLease(l LeaseOver) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		_, err := dbsqlc.New(q).ExpireLease(ctx, dbsqlc.ExpireLeaseParams{
			TenantID: l.Ref.Tenant, Operation: string(l.Ref.Operation), Key: l.Ref.Key.value,
			Attempt: l.Attempt, Generation: l.Generation,
		})
		return err
	}
}

// Paused reports whether so much time has passed since the lease was requested that sending would be a risk. It uses
// both the monotonic clock and the wall clock, because the monotonic clock stands still while a machine is suspended.
func (k *Keys) Paused(l Lease) bool {
	now := k.now()
	limit := k.terms.MaxPause()
	return now.Sub(l.asked) > limit || now.Round(0).Sub(l.asked.Round(0)) > limit
}

// decisionOn is the decision for a reservation that has read or written this row. Only the lease id says whether the
// row is ours. The row may be ours because an earlier try of the same reservation has committed and its acknowledgement
// was lost. It is not ours if another member of the group has reserved the key.
func decisionOn(c Reservation, row dbsqlc.FindKeyRow) Decision {
	s := fromRow(c.Ref, row)
	if s.LeaseID == c.LeaseID && s.Status == InProgressStatus && !s.leaseOver {
		return Execute{Lease: Lease{execution: s.Execution(), expires: s.Expires, asked: c.asked}}
	}
	return s.decide(c.Fingerprint)
}
