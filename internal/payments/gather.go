package payments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// errNotOurs says that evidence is not about any payment or refund of ours.
var errNotOurs = errors.New("nothing of ours")

// maxReads is how often a key is read, at most, for one piece of evidence: again whenever somebody else, or a commit of
// its own, has moved it in between. If the first read does not decide, the second nearly always does.
const maxReads = 5

// Gathered is what is known before judge is called: the movement that the evidence is about, and what was read of its
// key.
type Gathered struct {
	movement *movement // nil for evidence about nothing of ours
	Seen     judge.Seen
	lease    idempotency.Lease // set only if the request itself brings the evidence
	askedAt  time.Time         // when the key was read, before the PSP is asked; "not found" is judged by this time
	// due is when the next lookup of an unknown key is due. A lookup that is postponed changes it. A postponement is
	// written only if due is still the same, so of two lookups at the same time only one is written.
	due time.Time
	// alone: a step was refused before. The next one shares its transaction with no other payment.
	alone bool
}

// Gather reads the key and the movement of an execution in one round trip. It reads the key first, so the movement's
// row is never older than the key. If the key is final, judge compares the evidence with that row.
func (b *Books) Gather(ctx context.Context, own idempotency.Execution) (Gathered, error) {
	return b.gatherBy(ctx, own, b.db.Pipeline)
}

func (b *Books) gatherBy(ctx context.Context, own idempotency.Execution, send postgres.Sender) (Gathered, error) {
	var view idempotency.KeyView
	var m *movement
	if err := send(ctx, b.keys.LookIn(own.Ref, &view), b.findMovement(own.Ref, &own.Subject, &m)); err != nil {
		return Gathered{}, fmt.Errorf("gather: %w", err)
	}
	if m == nil {
		return Gathered{}, errNotOurs
	}
	return gatheredOf(m, own, view), nil
}

// gatherAgain reads the key again after a step did not pass. refusal is the constraint that refused the step, if one
// did. The refusal is kept only if the key has not changed, because it is about the step that was judged from that
// state.
func (b *Books) gatherAgain(ctx context.Context, g Gathered, refusal error) (Gathered, error) {
	fresh, err := b.Gather(ctx, g.Seen.Own)
	if err != nil {
		return g, err
	}
	fresh.lease, fresh.alone, fresh.Seen.Stored = g.lease, true, g.Seen.Stored
	fresh.Seen.Woken = g.Seen.Woken || !fresh.due.Equal(g.due)
	if fresh.Seen.Status == g.Seen.Status && fresh.Seen.Key == g.Seen.Key {
		fresh.Seen.IDTaken, fresh.Seen.ShareGone = BelongsToAnother(refusal), shareGone(refusal)
	}
	return fresh, nil
}

func gatheredOf(m *movement, own idempotency.Execution, view idempotency.KeyView) Gathered {
	return Gathered{movement: m, Seen: seenOf(m, own, view), askedAt: view.AskedAt, due: view.Due}
}

// seenOf makes a Seen from what one gather has read.
func seenOf(m *movement, own idempotency.Execution, view idempotency.KeyView) judge.Seen {
	return judge.Seen{
		Status: view.Status, Key: view.Execution, Own: own,
		Tenant: m.merchant.Tenant, PSP: m.merchant.PSP, Account: m.merchant.PSPAccount,
		Request: m.request(own), Row: m.rowVerdict(),
		GraceLeft: view.GraceLeft, MemoryOver: view.MemoryOver, Failures: view.LookupFailures,
		Held: view.Held, Charged: view.Charged,
	}
}

// GatherRecord reads the movement that a record is about. For a record about nothing of ours, the result has no
// movement. It names the key under which the PSP has the record, if that may be a key of ours: after a restore, we may
// have lost it.
func (b *Books) GatherRecord(ctx context.Context, e judge.Record) (Gathered, error) {
	own, err := b.executionOf(ctx, e.Record)
	if err == nil {
		var g Gathered
		if g, err = b.Gather(ctx, own); err == nil {
			g, err = withStored(ctx, dbsqlc.New(b.db.Reader()), g, e.Record.Object, e.Record.ID)
		}
		if err == nil {
			return b.withLost(ctx, g, e)
		}
	}
	if errors.Is(err, errNotOurs) {
		var name idempotency.Execution
		if name, err = b.nameOf(ctx, e.Record); err == nil || errors.Is(err, errNotOurs) {
			return Gathered{Seen: judge.Seen{Own: name, Tenant: name.Ref.Tenant,
				Shared: b.psps.Of(e.PSP).Traits().ForeignRecords}}, nil
		}
	}
	return Gathered{}, fmt.Errorf("find what a record is about: %w", err)
}

// executionOf finds the execution that a record is about. It fails with errNotOurs. It looks among the movements of the
// account's tenant: first for the record's reference, which is our id of the movement, or for its key if it has no
// reference, and then for what the record changes. Only if it finds nothing there, it asks for the reference among all
// tenants: a record that names another tenant's payment is a contradiction, and an operator must see it.
func (b *Books) executionOf(ctx context.Context, r gateway.Record) (own idempotency.Execution, err error) {
	id, ok := payment.SubjectOf(r.Object, r.Reference)
	switch {
	case ok:
		own, err = executionBy(ctx, dbsqlc.New(b.db.Reader()), r.Account, id, r.Object)
	case r.Reference == "":
		own, err = b.executionOfKey(ctx, r)
	default:
		err = errNotOurs
	}
	if errors.Is(err, errNotOurs) {
		own, err = b.executionChangedBy(ctx, r)
	}
	if ok && errors.Is(err, errNotOurs) {
		row, err := dbsqlc.New(b.db.Reader()).ExecutionOfAnybody(ctx,
			dbsqlc.ExecutionOfAnybodyParams{ID: id, Object: string(r.Object)})
		if errors.Is(err, pgx.ErrNoRows) {
			err = errNotOurs
		}
		return execution(row.TenantID, payment.OperationOf(r.Object), row.IdempotencyKey, id, row.Generation), err
	}
	return own, err
}

// executionBy finds the execution of a movement among those of the account's tenant. It fails with errNotOurs.
func executionBy(
	ctx context.Context, q *dbsqlc.Queries, account string, id uuid.UUID, o gateway.Object,
) (idempotency.Execution, error) {
	rows, err := q.BookedMovements(ctx,
		dbsqlc.BookedMovementsParams{Ids: []uuid.UUID{id}, Account: account, Object: string(o)})
	if err != nil || len(rows) == 0 {
		return idempotency.Execution{}, cmp.Or(err, errNotOurs)
	}
	return execution(rows[0].TenantID, payment.OperationOf(o), rows[0].IdempotencyKey, id, rows[0].Generation), nil
}

// mostGenerations is more than any key of ours can reach. After the greatest integer there would be no next generation.
const mostGenerations = 1_000_000

// nameOf is the key and generation that a record names. The key need not have a row. It fails with errNotOurs.
func (b *Books) nameOf(ctx context.Context, r gateway.Record) (idempotency.Execution, error) {
	key, generation, err := idempotency.ParsePassThrough(r.Key)
	if err != nil || generation > mostGenerations {
		return idempotency.Execution{}, errNotOurs
	}
	tenant, err := dbsqlc.New(b.db.Reader()).TenantOfAccount(ctx, r.Account)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return idempotency.Execution{}, errNotOurs
	case err != nil:
		return idempotency.Execution{}, fmt.Errorf("find tenant of account: %w", err)
	}
	return execution(tenant.ID, payment.OperationOf(r.Object), key.String(), uuid.UUID{}, generation), nil
}

// executionOfKey finds the execution by the PSP's account and the key that we have sent to the PSP.
func (b *Books) executionOfKey(ctx context.Context, r gateway.Record) (idempotency.Execution, error) {
	own, err := b.nameOf(ctx, r)
	if err != nil {
		return idempotency.Execution{}, err
	}
	row, err := b.keys.Find(ctx, own.Ref)
	switch {
	case errors.Is(err, idempotency.ErrNoKey), err == nil && row.Generation != own.Generation:
		return idempotency.Execution{}, errNotOurs
	case err != nil:
		return idempotency.Execution{}, err
	}
	own.Subject = row.Subject
	return own, nil
}

// GatherDue reads an unknown key that is due, and its movement. The round trip is shared with other lookups. It fails
// with idempotency.ErrNoKey if the key is gone or stands for something else by now.
func (b *Books) GatherDue(ctx context.Context, due idempotency.Due) (Gathered, error) {
	l, err := b.groups.lookups.Do(ctx, lookup(due))
	if err != nil {
		return Gathered{}, fmt.Errorf("look at key: %w", err)
	}
	if err := standsFor(due, l.view, l.movement); err != nil {
		return Gathered{}, err
	}
	return gatheredOf(l.movement, l.view.Execution, l.view), nil
}

// standsFor fails unless the key still stands for what is due and m is the key's movement. Two statements have read
// them, and each sees what was committed when it began. The key may have been renewed in between.
func standsFor(due idempotency.Due, view idempotency.KeyView, m *movement) error {
	switch {
	case view.Execution.Generation != due.Generation: // This is also the case if there is no key.
		return idempotency.ErrNoKey
	case due.Subject != uuid.UUID{} && view.Execution.Subject != due.Subject:
		return idempotency.ErrNoKey
	case m == nil:
		return fmt.Errorf("load what the key stands for: %w", errNotOurs)
	case m.subject() != view.Execution.Subject:
		return idempotency.ErrNoKey
	}
	return nil
}
