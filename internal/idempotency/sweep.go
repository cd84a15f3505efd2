package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Due is an unknown key that somebody has to resolve.
type Due struct {
	Ref        Ref
	Generation int32
	Subject    uuid.UUID // what the key stood for; zero in a job of an earlier version of this program
}

// SweepTx makes up to limit keys unknown whose leases are over. Other claimers do not see them for the time of visibility: the
// caller enqueues their resolution in the same transaction.
func (k *Keys) SweepTx(ctx context.Context, tx pgx.Tx, limit int32, visibility time.Duration) ([]Due, error) {
	q := dbsqlc.New(tx)
	due, err := takeDueTx(ctx, limit, find(q.FindOverdueLeases), func(ctx context.Context, tenant string, operations, keys []string) ([]dbsqlc.SweepLeasesRow, error) {
		return q.SweepLeases(ctx, dbsqlc.SweepLeasesParams{TenantID: tenant, Operations: operations, Keys: keys, Visibility: visibility})
	})
	if err != nil {
		return nil, fmt.Errorf("sweep leases: %w", err)
	}
	return due, nil
}

// ClaimDueTx takes up to limit unknown keys whose next lookup is due, and hides them from other claimers for the time of
// visibility. A key whose job is lost comes back after it.
func (k *Keys) ClaimDueTx(ctx context.Context, tx pgx.Tx, limit int32, visibility time.Duration) ([]Due, error) {
	q := dbsqlc.New(tx)
	due, err := takeDueTx(ctx, limit, find(q.FindDue), func(ctx context.Context, tenant string, operations, keys []string) ([]dbsqlc.ClaimDueRow, error) {
		return q.ClaimDue(ctx, dbsqlc.ClaimDueParams{TenantID: tenant, Operations: operations, Keys: keys, Visibility: visibility})
	})
	if err != nil {
		return nil, fmt.Errorf("claim due keys: %w", err)
	}
	return due, nil
}

// takeDueTx is walkTx for a take that tells which keys it has taken.
func takeDueTx[Row dbsqlc.SweepLeasesRow | dbsqlc.ClaimDueRow](
	ctx context.Context, limit int32, find func(ctx context.Context, limit int32) ([]candidate, error),
	take func(ctx context.Context, tenant string, operations, keys []string) ([]Row, error),
) (due []Due, err error) {
	_, err = walkTx(ctx, limit, find, func(ctx context.Context, tenant string, operations, keys []string) (int, error) {
		rows, err := take(ctx, tenant, operations, keys)
		for _, row := range rows {
			r := dbsqlc.ClaimDueRow(row)
			due = append(due, Due{Ref: StoredRef(r.TenantID, r.Operation, r.Key), Generation: r.Generation, Subject: r.Subject})
		}
		return len(rows), err
	})
	return due, err
}

// Sight is a key as a resolver sees it before it asks the PSP, by the database's clock.
type Sight struct {
	Execution      Execution
	Status         Status
	Asked          time.Time     // the moment of looking: what the PSP says later is judged by it
	Due            time.Time     // when the next lookup is due; zero unless the key is unknown
	WindowLeft     time.Duration // until "not found" becomes proof; not positive when it is
	MemoryOver     bool          // the PSP may have forgotten the key
	LookupFailures int32         // in a row
	DeadLettered   bool          // an operator has the case
	Charged        bool          // an open dead letter of the key says that money moved
}

// Look sees a key, or fails with ErrNoKey.
func (k *Keys) Look(ctx context.Context, ref Ref) (Sight, error) {
	row, err := dbsqlc.New(k.db.Reader()).LookAtKey(ctx, k.lookAt(ref))
	return lookedAt(ref, row, err)
}

// LookIn is Look in a call of a pipeline. It gives a Sight without a status when there is no such key.
func (k *Keys) LookIn(ref Ref, out *Sight) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		row, err := dbsqlc.New(q).LookAtKey(ctx, k.lookAt(ref))
		*out, err = lookedAt(ref, row, err)
		if errors.Is(err, ErrNoKey) {
			return nil
		}
		return err
	}
}

func (k *Keys) lookAt(ref Ref) dbsqlc.LookAtKeyParams {
	return dbsqlc.LookAtKeyParams{
		TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.value, SettleWindow: k.terms.SettleWindow, PspMemory: k.terms.PSPMemory,
	}
}

func lookedAt(ref Ref, row dbsqlc.LookAtKeyRow, err error) (Sight, error) {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Sight{}, ErrNoKey
	case err != nil:
		return Sight{}, fmt.Errorf("look at key: %w", err)
	}
	return sightOf(ref, row), nil
}

func sightOf(ref Ref, row dbsqlc.LookAtKeyRow) Sight {
	return Sight{
		Execution: Execution{
			Ref: ref, LeaseID: row.LeaseID, Subject: row.Subject, Attempt: row.Attempt, Generation: row.Generation,
		},
		Status: Status(row.Status), Asked: row.AskedAt, Due: value(row.ReconcileAfter), WindowLeft: time.Duration(row.WindowLeft * float64(time.Second)),
		MemoryOver: row.MemoryOver, LookupFailures: row.LookupFailures, DeadLettered: row.DeadLettered, Charged: row.Charged,
	}
}

func value(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
