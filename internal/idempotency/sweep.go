package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Due is an unknown key that must be looked up.
type Due struct {
	Ref        Ref
	Generation int32
	Subject    uuid.UUID // what the key stood for; zero in a job that an earlier version of this program has written
}

// SweepTx makes up to limit keys unknown whose leases are over. For the time of visibility, ClaimDueTx does not return
// them, because the caller enqueues their lookups in the same transaction.
func (k *Keys) SweepTx(ctx context.Context, tx pgx.Tx, limit int32, visibility time.Duration) ([]Due, error) {
	q := dbsqlc.New(tx)
	due, err := takeDueTx(ctx, limit, dueKeys(q, "sweep"),
		func(ctx context.Context, tenant string, operations, keys []string) ([]dbsqlc.SweepLeasesRow, error) {
			return q.SweepLeases(ctx, dbsqlc.SweepLeasesParams{TenantID: tenant, Operations: operations, Keys: keys,
				Visibility: visibility})
		})
	if err != nil {
		return nil, fmt.Errorf("sweep leases: %w", err)
	}
	return due, nil
}

// ClaimDueTx returns up to limit unknown keys whose next lookup is due. It hides them from other calls for the time of
// visibility. If the job of a key is lost, the key is due again after that time.
func (k *Keys) ClaimDueTx(ctx context.Context, tx pgx.Tx, limit int32, visibility time.Duration) ([]Due, error) {
	q := dbsqlc.New(tx)
	due, err := takeDueTx(ctx, limit, dueKeys(q, "claim"),
		func(ctx context.Context, tenant string, operations, keys []string) ([]dbsqlc.ClaimDueRow, error) {
			return q.ClaimDue(ctx, dbsqlc.ClaimDueParams{TenantID: tenant, Operations: operations, Keys: keys,
				Visibility: visibility})
		})
	if err != nil {
		return nil, fmt.Errorf("claim due keys: %w", err)
	}
	return due, nil
}

// takeDueTx is walkTx for a take that returns the keys that it has taken.
func takeDueTx[Row dbsqlc.SweepLeasesRow | dbsqlc.ClaimDueRow](
	ctx context.Context, limit int32, find func(ctx context.Context, limit int32) ([]candidate, error),
	take func(ctx context.Context, tenant string, operations, keys []string) ([]Row, error),
) (due []Due, err error) {
	_, err = walkTx(ctx, limit, find, func(ctx context.Context, tenant string, operations, keys []string) (int, error) {
		rows, err := take(ctx, tenant, operations, keys)
		for _, row := range rows {
			r := dbsqlc.ClaimDueRow(row)
			due = append(due, Due{Ref: StoredRef(r.TenantID, r.Operation, r.Key), Generation: r.Generation,
				Subject: r.Subject})
		}
		return len(rows), err
	})
	return due, err
}

// KeyView is what is known of a key before the PSP is asked. The times are by the database's clock.
type KeyView struct {
	Execution      Execution
	Status         Status
	AskedAt        time.Time     // when the key was read; a later "not found" of the PSP is judged by this time
	Due            time.Time     // when the next lookup is due; zero if the key is not unknown
	GraceLeft      time.Duration // the rest of the grace period; zero or negative if "not found" is proof
	MemoryOver     bool          // the PSP may have forgotten the key
	LookupFailures int32         // lookups in a row without an answer
	Held           bool          // an open dead letter forbids to release the key
	Charged        bool          // an open dead letter of the key says that money has moved
}

// LookIn is the call that reads a key. If there is no such key, out is a KeyView without a status.
func (k *Keys) LookIn(ref Ref, out *KeyView) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		row, found, err := findKey(ctx, q, ref)
		if *out = (KeyView{}); found {
			*out = k.viewOf(ref, row)
		}
		return err
	}
}

func (k *Keys) viewOf(ref Ref, row dbsqlc.FindKeyRow) KeyView {
	s := fromRow(ref, row)
	v := KeyView{
		Execution: s.Execution(), Status: s.Status, AskedAt: row.ReadAt,
		MemoryOver:     !row.ReservedAt.Add(k.terms.PSPMemory).After(row.ReadAt),
		LookupFailures: row.LookupFailures, Charged: s.charged,
		Held: s.charged || row.DeadLetterHold == dbsqlc.DeadLetterHoldRelease,
	}
	if row.ReconcileAfter != nil {
		v.Due = *row.ReconcileAfter
	}
	if row.UnknownSince != nil {
		v.GraceLeft = row.UnknownSince.Add(k.terms.GracePeriod).Sub(row.ReadAt)
	}
	return v
}
