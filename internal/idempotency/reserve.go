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

// reserve is the call that reserves keys, or reads the rows that exist already. out gets a decision for each try, in
// order. A decision is nil if another request has committed after the statement's snapshot. Send that try again. The
// tries must be of different keys.
func (k *Keys) reserve(tries []Try, out *[]Decision) postgres.Call {
	p := dbsqlc.ReserveKeysParams{Lease: k.terms.Lease, Retention: k.terms.Retention}
	for _, r := range tries {
		p.TenantIds = append(p.TenantIds, r.Ref.Tenant)
		p.Operations = append(p.Operations, string(r.Ref.Operation))
		p.Keys = append(p.Keys, r.Ref.Key.value)
		p.Fingerprints = append(p.Fingerprints, r.Fingerprint[:])
		p.LeaseIds = append(p.LeaseIds, r.LeaseID)
		p.Subjects = append(p.Subjects, r.Subject)
	}
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).ReserveKeys(ctx, p)
		if err != nil {
			return err
		}
		found := make(map[Ref]dbsqlc.ReserveKeysRow, len(rows))
		for _, row := range rows {
			found[StoredRef(row.TenantID, row.Operation, row.Key)] = row
		}
		*out = make([]Decision, len(tries))
		for i, t := range tries {
			if row, ok := found[t.Ref]; ok {
				(*out)[i] = decisionOn(t.Reservation, dbsqlc.FindKeyRow(row))
			}
		}
		return nil
	}
}

// retake is the call that takes a free key again, under the reservation's lease: the next attempt of a failed_retryable
// key, or a new generation of an expired one. The decision is nil if the key is not free any more, or if the PSP may
// have forgotten it.
func (k *Keys) retake(r Reservation, free snapshot, out *Decision) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		row, err := k.sendRetake(ctx, dbsqlc.New(q), r, free)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			*out = nil
			return nil
		case err != nil:
			return err
		}
		*out = decisionOn(r, row)
		return nil
	}
}

func (k *Keys) sendRetake(
	ctx context.Context, q *dbsqlc.Queries, r Reservation, free snapshot,
) (dbsqlc.FindKeyRow, error) {
	if free.Status == ExpiredStatus {
		row, err := q.RenewKey(ctx, dbsqlc.RenewKeyParams{
			TenantID: r.Ref.Tenant, Operation: string(r.Ref.Operation), Key: r.Ref.Key.value,
			Fingerprint: r.Fingerprint[:],
			LeaseID:     r.LeaseID, Subject: r.Subject, Lease: k.terms.Lease, Retention: k.terms.Retention,
			Generation: free.Generation,
		})
		return dbsqlc.FindKeyRow(row), err
	}
	row, err := q.RetakeKey(ctx, dbsqlc.RetakeKeyParams{
		TenantID: r.Ref.Tenant, Operation: string(r.Ref.Operation), Key: r.Ref.Key.value, Fingerprint: r.Fingerprint[:],
		LeaseID: r.LeaseID, Lease: k.terms.Lease, Retention: k.terms.Retention,
		PspMemory: k.terms.PSPMemory - k.terms.Lease,
		Attempt:   free.Attempt, Generation: free.Generation,
	})
	return dbsqlc.FindKeyRow(row), err
}

// expireLease is the call that makes a key unknown whose lease is over. It writes nothing if somebody else has moved
// the key first. Read the key again afterwards.
func (k *Keys) expireLease(l KeyRow) postgres.Call {
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
func decisionOn(r Reservation, row dbsqlc.FindKeyRow) Decision {
	s := fromRow(r.Ref, row)
	if s.LeaseID == r.LeaseID && s.Status == InProgressStatus && !s.leaseOver {
		return Execute{Lease: Lease{execution: s.Execution(), expires: s.Expires, asked: r.asked}}
	}
	return s.decide(r.Fingerprint)
}
