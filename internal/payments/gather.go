package payments

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// errNotOurs says that evidence is about nothing that we have.
var errNotOurs = errors.New("nothing of ours")

// gathered is what is known before judge is asked: the movement that the evidence is about, and what was seen of its key.
type gathered struct {
	movement movement // nil for evidence about nothing of ours
	seen     Seen
	lease    idempotency.Lease // of the request itself; else zero
}

// gather reads the key and the movement of an execution in one round trip. The key comes first: the row is then never the older of the two, and what it
// says counts where the key is final.
func (s *Service) gather(ctx context.Context, own idempotency.Execution) (gathered, error) {
	var sight idempotency.Sight
	var m movement
	b := &pgx.Batch{}
	s.keys.QueueLook(b, own.Ref, &sight)
	s.queueMovement(b, own, &m)
	if err := s.db.Send(ctx, b); err != nil {
		return gathered{}, fmt.Errorf("gather: %w", err)
	}
	if m == nil {
		return gathered{}, errNotOurs
	}
	return gathered{movement: m, seen: seenOf(m, own, sight)}, nil
}

// seenOf is what one gathering has read.
func seenOf(m movement, own idempotency.Execution, sight idempotency.Sight) Seen {
	seen := Seen{
		Status: sight.Status, Key: sight.Execution, Own: own,
		At: sight.Asked, GraceLeft: sight.WindowLeft, MemoryOver: sight.MemoryOver, Failures: sight.LookupFailures,
		Held: sight.DeadLettered, Charged: sight.Charged,
	}
	if m != nil {
		seen.Tenant, seen.Account = m.onBehalfOf().Tenant, m.onBehalfOf().PSPAccount
		seen.Asked, seen.Row = m.asked(own.PassThroughKey()), m.standing()
	}
	return seen
}

// gatherReserved is what a request knows that has just reserved its key, without a look.
func gatherReserved(l idempotency.Lease, m movement) gathered {
	return gathered{
		movement: m, lease: l,
		seen: seenOf(m, l.Execution(), idempotency.Sight{Status: idempotency.InProgressStatus, Execution: l.Execution()}),
	}
}

// gatherFor reads what a record is about: the movement that it names as its reference, which is our own id, or else by the key that it was made under.
// Of a record about nothing of ours, nothing is known.
func (s *Service) gatherFor(ctx context.Context, r gateway.Record) (gathered, error) {
	own, err := s.executionOf(ctx, r)
	if err == nil {
		var g gathered
		if g, err = s.gather(ctx, own); err == nil {
			return g, nil
		}
	}
	if errors.Is(err, errNotOurs) {
		return gathered{}, nil
	}
	return gathered{}, fmt.Errorf("find what a record is about: %w", err)
}

// executionOf finds the execution that a record is about. It fails with errNotOurs.
func (s *Service) executionOf(ctx context.Context, r gateway.Record) (idempotency.Execution, error) {
	if id, ok := subjectOf(r); ok {
		return postgres.Read(ctx, s.db, func(ctx context.Context, c *pgxpool.Conn) (idempotency.Execution, error) {
			return executionBy(ctx, dbsqlc.New(c), id, r.Object)
		})
	}
	if r.Reference != "" {
		return idempotency.Execution{}, errNotOurs
	}
	return s.executionOfKey(ctx, r)
}

// executionBy finds the execution of a movement. It fails with errNotOurs.
func executionBy(ctx context.Context, q *dbsqlc.Queries, id uuid.UUID, o gateway.Object) (idempotency.Execution, error) {
	row, err := q.ExecutionOf(ctx, dbsqlc.ExecutionOfParams{ID: id, Object: string(o)})
	if errors.Is(err, pgx.ErrNoRows) {
		return idempotency.Execution{}, errNotOurs
	}
	return execution(row.TenantID, operationOf(o), row.IdempotencyKey, id, row.Generation), err
}

// executionOfKey finds it by the PSP's account and the key that was passed through.
func (s *Service) executionOfKey(ctx context.Context, r gateway.Record) (idempotency.Execution, error) {
	key, generation, err := idempotency.ParsePassThrough(r.Key)
	if err != nil {
		return idempotency.Execution{}, errNotOurs
	}
	tenant, err := postgres.Read(ctx, s.db, func(ctx context.Context, c *pgxpool.Conn) (string, error) {
		return dbsqlc.New(c).TenantOfAccount(ctx, r.Account)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return idempotency.Execution{}, errNotOurs
	case err != nil:
		return idempotency.Execution{}, fmt.Errorf("find tenant of account: %w", err)
	}
	row, err := s.keys.Find(ctx, idempotency.Ref{Scope: idempotency.ScopeOf(tenant, operationOf(r.Object)), Key: key})
	switch {
	case errors.Is(err, idempotency.ErrNoKey), err == nil && row.Generation != generation:
		return idempotency.Execution{}, errNotOurs
	case err != nil:
		return idempotency.Execution{}, err
	}
	own := row.Execution()
	return execution(tenant, operationOf(r.Object), own.Ref.Key.String(), own.Subject, own.Generation), nil
}

// gatherDue reads an unknown key that is due, and what it stands for, in one round trip. It shares a transaction with other lookups: of many lookups at a
// time, the questions to the database would cost more than those to the PSP. It fails with idempotency.ErrNoKey when the key is gone, or stands for
// something else by now.
func (s *Service) gatherDue(ctx context.Context, due idempotency.Due) (gathered, error) {
	var sight idempotency.Sight
	var m movement
	err := s.db.SendShared(ctx, lockOrder(due.Ref), func(b *pgx.Batch) {
		s.keys.QueueLook(b, due.Ref, &sight)
		s.queueMovementOf(b, due.Ref, &m)
	})
	if err != nil {
		return gathered{}, fmt.Errorf("look at key: %w", err)
	}
	if err := standsFor(due, sight, m); err != nil {
		return gathered{}, err
	}
	return gathered{movement: m, seen: seenOf(m, sight.Execution, sight)}, nil
}

// standsFor fails unless the key still stands for what is due, and the movement is that of the key: each of the two statements that read them sees
// what was committed by then, and the key may have been renewed in between.
func standsFor(due idempotency.Due, sight idempotency.Sight, m movement) error {
	switch {
	case sight.Execution.Generation != due.Generation: // also of no key at all
		return idempotency.ErrNoKey
	case due.Subject != uuid.UUID{} && sight.Execution.Subject != due.Subject:
		return idempotency.ErrNoKey
	case m == nil:
		return fmt.Errorf("load what the key stands for: %w", errNotOurs)
	case m.subject() != sight.Execution.Subject:
		return idempotency.ErrNoKey
	}
	return nil
}

// gatherTx is gather in the caller's transaction.
func (s *Service) gatherTx(ctx context.Context, tx pgx.Tx, own idempotency.Execution) (gathered, error) {
	var sight idempotency.Sight
	var m movement
	b := &pgx.Batch{}
	s.keys.QueueLook(b, own.Ref, &sight)
	s.queueMovement(b, own, &m)
	if err := postgres.SendTx(ctx, tx, b); err != nil {
		return gathered{}, fmt.Errorf("gather: %w", err)
	}
	return gathered{movement: m, seen: seenOf(m, own, sight)}, nil
}

// execution names a movement's generation of its key. Which attempt it is, the key's row says.
func execution(tenant, operation, key string, subject uuid.UUID, generation int32) idempotency.Execution {
	return idempotency.Execution{
		Ref:     idempotency.StoredRef(string(idempotency.ScopeOf(tenant, operation)), key),
		Subject: subject, Generation: generation,
	}
}

// operationOf is what a key is for that moves this kind of object.
func operationOf(o gateway.Object) string {
	if o == gateway.RefundObject {
		return RefundOperation
	}
	return CreateOperation
}
