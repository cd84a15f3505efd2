package payments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	asked    time.Time         // the moment of the look: what the PSP says later is judged by it
	due      time.Time         // of the key's next lookup, if it is unknown. Whoever moves it keeps the others who ask from writing.
}

// gather reads the key and the movement of an execution in one round trip. The key comes first: the row is then never the older of the two, and what it
// says counts where the key is final.
func (s *Service) gather(ctx context.Context, own idempotency.Execution) (gathered, error) {
	return s.gatherBy(own, func(calls ...postgres.Call) error { return s.db.Pipeline(ctx, calls...) })
}

// gatherTx is gather in the caller's transaction.
func (s *Service) gatherTx(ctx context.Context, tx pgx.Tx, own idempotency.Execution) (gathered, error) {
	return s.gatherBy(own, func(calls ...postgres.Call) error { return postgres.PipelineTx(ctx, tx, calls...) })
}

func (s *Service) gatherBy(own idempotency.Execution, send func(...postgres.Call) error) (gathered, error) {
	var sight idempotency.Sight
	var m movement
	if err := send(s.keys.LookIn(own.Ref, &sight), s.findMovement(own, &m)); err != nil {
		return gathered{}, fmt.Errorf("gather: %w", err)
	}
	if m == nil {
		return gathered{}, errNotOurs
	}
	return gatheredOf(m, own, sight), nil
}

// gatherAgain sees what the key has become. The refusal of a step counts for the very Seen that the step was judged from.
func (s *Service) gatherAgain(ctx context.Context, g gathered, refusal error) (gathered, error) {
	fresh, err := s.gather(ctx, g.seen.Own)
	if err != nil {
		return g, err
	}
	fresh.lease = g.lease
	fresh.seen.Woken = g.seen.Woken || !fresh.due.Equal(g.due)
	if fresh.seen.Status == g.seen.Status && fresh.seen.Key == g.seen.Key {
		fresh.seen.IDTaken, fresh.seen.ShareGone = BelongsToAnother(refusal), shareGone(refusal)
	}
	return fresh, nil
}

func gatheredOf(m movement, own idempotency.Execution, sight idempotency.Sight) gathered {
	return gathered{movement: m, seen: seenOf(m, own, sight), asked: sight.Asked, due: sight.Due}
}

// seenOf is what one gathering has read.
func seenOf(m movement, own idempotency.Execution, sight idempotency.Sight) Seen {
	seen := Seen{
		Status: sight.Status, Key: sight.Execution, Own: own,
		GraceLeft: sight.WindowLeft, MemoryOver: sight.MemoryOver, Failures: sight.LookupFailures,
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

// executionOf finds the execution that a record is about. It fails with errNotOurs. A reference is looked for where the record's account says. Only if
// nothing is there, all tenants are asked: to name the payment of another tenant is a contradiction, which an operator must see.
func (s *Service) executionOf(ctx context.Context, r gateway.Record) (idempotency.Execution, error) {
	if id, ok := subjectOf(r); ok {
		own, err := executionBy(ctx, dbsqlc.New(s.db.Reader()), r.Account, id, r.Object)
		if errors.Is(err, errNotOurs) {
			row, err := dbsqlc.New(s.db.Reader()).ExecutionOfAnybody(ctx, dbsqlc.ExecutionOfAnybodyParams{ID: id, Object: string(r.Object)})
			return foundExecution(dbsqlc.ExecutionOfRow(row), err, id, r.Object)
		}
		return own, err
	}
	if r.Reference != "" {
		return idempotency.Execution{}, errNotOurs
	}
	return s.executionOfKey(ctx, r)
}

// executionBy finds the execution of a movement of the tenant whose account it is. It fails with errNotOurs.
func executionBy(ctx context.Context, q *dbsqlc.Queries, account string, id uuid.UUID, o gateway.Object) (idempotency.Execution, error) {
	row, err := q.ExecutionOf(ctx, dbsqlc.ExecutionOfParams{ID: id, Account: account, Object: string(o)})
	return foundExecution(row, err, id, o)
}

func foundExecution(row dbsqlc.ExecutionOfRow, err error, id uuid.UUID, o gateway.Object) (idempotency.Execution, error) {
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
	tenant, err := dbsqlc.New(s.db.Reader()).TenantOfAccount(ctx, r.Account)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return idempotency.Execution{}, errNotOurs
	case err != nil:
		return idempotency.Execution{}, fmt.Errorf("find tenant of account: %w", err)
	}
	row, err := s.keys.Find(ctx, idempotency.Ref{Tenant: tenant, Operation: operationOf(r.Object), Key: key})
	switch {
	case errors.Is(err, idempotency.ErrNoKey), err == nil && row.Generation != generation:
		return idempotency.Execution{}, errNotOurs
	case err != nil:
		return idempotency.Execution{}, err
	}
	own := row.Execution()
	return execution(tenant, operationOf(r.Object), own.Ref.Key.String(), own.Subject, own.Generation), nil
}

// gatherDue reads an unknown key that is due, and what it stands for, in one round trip, which it shares with other lookups. It fails with
// idempotency.ErrNoKey when the key is gone, or stands for something else by now.
func (s *Service) gatherDue(ctx context.Context, due idempotency.Due) (gathered, error) {
	l, err := s.groups.lookups.Do(ctx, due)
	if err != nil {
		return gathered{}, fmt.Errorf("look at key: %w", err)
	}
	if err := standsFor(due, l.sight, l.movement); err != nil {
		return gathered{}, err
	}
	return gatheredOf(l.movement, l.sight.Execution, l.sight), nil
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

// execution names a movement's generation of its key. Which attempt it is, the key's row says.
func execution(tenant string, operation idempotency.Operation, key string, subject uuid.UUID, generation int32) idempotency.Execution {
	return idempotency.Execution{
		Ref:     idempotency.StoredRef(tenant, string(operation), key),
		Subject: subject, Generation: generation,
	}
}

// operationOf is what a key is for that moves this kind of object.
func operationOf(o gateway.Object) idempotency.Operation {
	if o == gateway.RefundObject {
		return RefundOperation
	}
	return CreateOperation
}

// ask looks the key up under the tenant's own account. A record that refers to another payment, which had this very key in an earlier life, says
// nothing about this one: it is among the others, and not in the answer. Every other record is in the answer, also one with an empty or a strange
// reference: money may have moved.
func (s *Service) ask(ctx context.Context, g gathered) (answer gateway.Lookup, others []gateway.Record, err error) {
	answer = s.psp.Lookup(ctx, g.movement.object(), g.seen.Account, g.seen.Own.PassThroughKey())
	found, ok := answer.(gateway.Found)
	if !ok {
		return answer, nil, nil
	}
	var ids []uuid.UUID // of ours, to which the records refer, without the one that the key stands for
	for _, r := range found.Records {
		if id, ours := subjectOf(r); ours && id != g.seen.Own.Subject {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return answer, nil, nil
	}
	if ids, err = s.otherSubjects(ctx, g, ids); err != nil {
		return nil, nil, fmt.Errorf("read earlier payments of key: %w", err)
	}
	var about []gateway.Record
	for _, r := range found.Records {
		if id, ours := subjectOf(r); ours && slices.Contains(ids, id) {
			others = append(others, r)
		} else {
			about = append(about, r)
		}
	}
	if len(about) == 0 {
		return gateway.NotFound{}, others, nil
	}
	return gateway.Found{Records: about}, others, nil
}

// otherSubjects are those of the ids that once had the key in the same generation, and are not what it stands for.
func (s *Service) otherSubjects(ctx context.Context, g gathered, ids []uuid.UUID) ([]uuid.UUID, error) {
	return dbsqlc.New(s.db.Reader()).OtherMovementsOfKey(ctx, dbsqlc.OtherMovementsOfKeyParams{
		Ids: ids, Subject: g.seen.Own.Subject, TenantID: g.seen.Tenant, Key: g.seen.Own.Ref.Key.String(), Generation: g.seen.Own.Generation,
		Object: string(g.movement.object()),
	})
}
