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

// Terms are the spans of time that keys live by. They are counted by the database's clock, except for MaxPause.
type Terms struct {
	Lease     time.Duration // the exclusive right to execute
	Retention time.Duration // how long a key is kept from its reservation on
	PSPMemory time.Duration // how long the PSP knows a key again; never executed anew beyond it

	// SettleWindow is how long after a key became unknown a lookup that finds nothing becomes proof.
	SettleWindow time.Duration
	// FirstLookup is how long a key that its owner has lost waits for a webhook before the PSP is asked.
	FirstLookup time.Duration
	// Audit is how long an expired key is kept before it is deleted.
	Audit time.Duration
}

// MaxPause is the longest time between asking for a lease and sending: an owner that was paused for longer does not send.
func (t Terms) MaxPause() time.Duration { return t.Lease / 3 }

// Check refuses terms that would let a key be executed twice.
func (t Terms) Check() error {
	switch {
	case t.Lease <= 0 || t.Retention <= 0 || t.PSPMemory <= 0:
		return errors.New("lease, retention and PSP memory must be positive")
	case t.Retention < t.PSPMemory:
		return errors.New("retention must not be shorter than the PSP's memory of a key")
	case t.Lease >= t.PSPMemory:
		return errors.New("the lease must be shorter than the PSP's memory of a key")
	case t.SettleWindow < t.Lease:
		return errors.New("the settle window must not be shorter than the lease: an owner could still send")
	case t.SettleWindow >= t.PSPMemory:
		return errors.New("the settle window must be shorter than the PSP's memory of a key")
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

// New returns the store. now is only used to notice that this process has been paused: the database decides leases.
func New(db *postgres.DB, terms Terms, now func() time.Time) *Keys {
	return &Keys{db: db, terms: terms, now: now}
}

// Claim is a request's wish to execute a key. Sent again after a lost acknowledgement, it is still the same claim.
type Claim struct {
	Ref         Ref
	Fingerprint Fingerprint
	LeaseID     uuid.UUID // fresh and random: tells the lease from a rival's
	Subject     uuid.UUID // of the domain object to be written, if the key is new

	asked time.Time
}

// NewClaim begins a claim: from here on the owner's pause counts.
func (k *Keys) NewClaim(ref Ref, f Fingerprint, leaseID, subject uuid.UUID) Claim {
	return Claim{Ref: ref, Fingerprint: f, LeaseID: leaseID, Subject: subject, asked: k.now()}
}

// Reserve is the call that reserves the keys of the claims, or reads what is in their way. It gives a decision for each claim, in order: nil where a rival
// has committed after the statement's snapshot. Send that claim again. The claims are of different keys.
func (k *Keys) Reserve(claims []Claim, out *[]Decision) postgres.Call {
	p := dbsqlc.ReserveKeysParams{Lease: k.terms.Lease, Retention: k.terms.Retention}
	for _, c := range claims {
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
		*out = make([]Decision, len(claims))
		for i, c := range claims {
			if row, ok := found[c.Ref]; ok {
				(*out)[i] = claimed(c, dbsqlc.FindKeyRow(row))
			}
		}
		return nil
	}
}

// Retake is the call that takes a free key again, under the claim's lease: the next attempt of a
// failed_retryable key, or a new generation of an expired one. It gives nil when the key is not free any more, or when the PSP
// may have forgotten it.
func (k *Keys) Retake(c Claim, r Retake, out *Decision) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		row, err := k.retake(ctx, dbsqlc.New(q), c, r)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			*out = nil
			return nil
		case err != nil:
			return err
		}
		*out = claimed(c, row)
		return nil
	}
}

func (k *Keys) retake(ctx context.Context, q *dbsqlc.Queries, c Claim, r Retake) (dbsqlc.FindKeyRow, error) {
	if r.Renews() {
		row, err := q.RenewKey(ctx, dbsqlc.RenewKeyParams{
			TenantID: c.Ref.Tenant, Operation: string(c.Ref.Operation), Key: c.Ref.Key.value, Fingerprint: c.Fingerprint[:],
			LeaseID: c.LeaseID, Subject: c.Subject, Lease: k.terms.Lease, Retention: k.terms.Retention,
			Generation: r.seen.Generation,
		})
		return dbsqlc.FindKeyRow(row), err
	}
	row, err := q.RetakeKey(ctx, dbsqlc.RetakeKeyParams{
		TenantID: c.Ref.Tenant, Operation: string(c.Ref.Operation), Key: c.Ref.Key.value, Fingerprint: c.Fingerprint[:],
		LeaseID: c.LeaseID, Lease: k.terms.Lease, Retention: k.terms.Retention, PspMemory: k.terms.PSPMemory - k.terms.Lease,
		Attempt: r.seen.Attempt, Generation: r.seen.Generation,
	})
	return dbsqlc.FindKeyRow(row), err
}

// ExpireLease is the call that makes a key unknown whose lease is over. Whoever else did it first, or
// completed the key, has the same right: read again afterwards.
func (k *Keys) ExpireLease(l LeaseOver) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		_, err := dbsqlc.New(q).ExpireLease(ctx, dbsqlc.ExpireLeaseParams{
			TenantID: l.seen.Ref.Tenant, Operation: string(l.seen.Ref.Operation), Key: l.seen.Ref.Key.value,
			Attempt: l.seen.Attempt, Generation: l.seen.Generation,
		})
		return err
	}
}

// Paused reports whether so much time has passed since the lease was asked for that sending would be a risk. Both the
// monotonic and the wall clock are asked: the first stands still while a machine is suspended.
func (k *Keys) Paused(l Lease) bool {
	now := k.now()
	limit := k.terms.MaxPause()
	return now.Sub(l.asked) > limit || now.Round(0).Sub(l.asked.Round(0)) > limit
}

// claimed turns the row that a claim has come back with into a decision. The lease id alone says whether the row is ours: also when an
// earlier send of the same claim has committed unnoticed, and never when the row was reserved by another member of the group.
func claimed(c Claim, row dbsqlc.FindKeyRow) Decision {
	s := fromRow(c.Ref, row)
	if s.LeaseID == c.LeaseID && s.Status == InProgressStatus && !s.leaseOver {
		return Execute{Lease: Lease{
			ref: c.Ref, id: c.LeaseID, subject: s.Subject, attempt: s.Attempt, generation: s.Generation,
			expires: s.Expires, asked: c.asked,
		}}
	}
	return s.decide(c.Fingerprint)
}
