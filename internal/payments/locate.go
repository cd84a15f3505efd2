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

// errNotOurs says that a record is about nothing that we have.
var errNotOurs = errors.New("nothing of ours")

// locate finds the movement that a record is about: by our own id, which it carries as its reference, or else by the key that it
// was made under.
func (s *Service) locate(ctx context.Context, r gateway.Record) (*caseFile, error) {
	if r.Object == gateway.RefundObject {
		if id, err := ParseRefundID(r.Reference); err == nil {
			return s.refundCase(ctx, uuid.UUID(id))
		}
	} else if id, err := ParsePaymentID(r.Reference); err == nil {
		return s.paymentCase(ctx, uuid.UUID(id))
	}
	if r.Reference != "" {
		return nil, errNotOurs
	}
	return s.caseByKey(ctx, r)
}

// caseByKey finds a movement by the PSP's account and the key that was passed through.
func (s *Service) caseByKey(ctx context.Context, r gateway.Record) (*caseFile, error) {
	key, generation, err := idempotency.ParsePassThrough(r.Key)
	if err != nil {
		return nil, errNotOurs
	}
	var tenant string
	err = s.db.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var err error
		tenant, err = dbsqlc.New(c).TenantOfAccount(ctx, r.Account)
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errNotOurs
	case err != nil:
		return nil, fmt.Errorf("find tenant of account: %w", err)
	}
	operation := CreateOperation
	if r.Object == gateway.RefundObject {
		operation = RefundOperation
	}
	row, err := s.keys.Find(ctx, idempotency.Ref{Scope: idempotency.ScopeOf(tenant, operation), Key: key})
	switch {
	case errors.Is(err, idempotency.ErrNoKey), err == nil && row.Generation != generation:
		return nil, errNotOurs
	case err != nil:
		return nil, err
	}
	return s.caseOf(ctx, row.Execution())
}

// caseOf loads the movement that an execution stands for.
func (s *Service) caseOf(ctx context.Context, e idempotency.Execution) (*caseFile, error) {
	var c *caseFile
	var err error
	if e.Ref.Scope.Operation() == RefundOperation {
		c, err = s.refundCase(ctx, e.Subject)
	} else {
		c, err = s.paymentCase(ctx, e.Subject)
	}
	if err != nil {
		return nil, err
	}
	c.execution = e
	return c, nil
}

// look sees a key and what it stands for, in one round trip. It fails with idempotency.ErrNoKey when the key is gone, or stands for
// something else by now. In company: of many lookups at a time, the questions to the database would cost more than those to the PSP.
func (s *Service) look(ctx context.Context, due idempotency.Due) (idempotency.Sight, *caseFile, error) {
	var sight idempotency.Sight
	var c *caseFile
	err := s.db.SendShared(ctx, lockOrder(due.Ref), func(b *pgx.Batch) {
		s.keys.QueueLook(b, due.Ref, &sight)
		s.queueCaseOf(b, due.Ref, &c)
	})
	if err != nil {
		return sight, nil, fmt.Errorf("look at key: %w", err)
	}
	return sight, c, c.seen(sight, due)
}

// seen takes over where the key of the case was seen. It fails unless the key still stands for what is due, and the case is of the same
// generation: each of the two statements that read them sees what was committed by then, and the key may have been renewed in between.
func (c *caseFile) seen(sight idempotency.Sight, due idempotency.Due) error {
	switch {
	case sight.Execution.Generation != due.Generation: // also of no key at all
		return idempotency.ErrNoKey
	case due.Subject != uuid.UUID{} && sight.Execution.Subject != due.Subject:
		return idempotency.ErrNoKey
	case c == nil:
		return fmt.Errorf("load what the key stands for: %w", errNotOurs)
	case c.execution.Subject != sight.Execution.Subject:
		return idempotency.ErrNoKey
	}
	c.execution = sight.Execution
	return nil
}

// queueCaseOf queues the reading of the movement that a key stands for now. It leaves *out nil when there is none.
func (s *Service) queueCaseOf(b *pgx.Batch, ref idempotency.Ref, out **caseFile) {
	*out = nil
	q := postgres.On(b)
	if ref.Scope.Operation() == RefundOperation {
		_, _ = dbsqlc.New(q).RefundOfKey(context.Background(), dbsqlc.RefundOfKeyParams{Scope: string(ref.Scope), Key: ref.Key.String()})
		postgres.One(q, func(row *struct {
			dbsqlc.Refund
			dbsqlc.Payment
			PSPAccount string
		},
		) (err error) {
			if row != nil {
				*out, err = s.caseOfRefund(row.Refund, row.Payment, row.PSPAccount)
			}
			return err
		})
		return
	}
	_, _ = dbsqlc.New(q).PaymentOfKey(context.Background(), dbsqlc.PaymentOfKeyParams{Scope: string(ref.Scope), Key: ref.Key.String()})
	postgres.One(q, func(row *struct {
		dbsqlc.Payment
		PSPAccount string
	},
	) (err error) {
		if row != nil {
			*out, err = s.caseOfPayment(row.Payment, row.PSPAccount)
		}
		return err
	})
}

func (s *Service) paymentCase(ctx context.Context, id uuid.UUID) (*caseFile, error) {
	var row dbsqlc.FindPaymentRow
	err := s.db.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var err error
		row, err = dbsqlc.New(c).FindPayment(ctx, id)
		return err
	})
	if err != nil {
		return nil, notOurs(err)
	}
	return s.caseOfPayment(row.Payment, row.PspAccount)
}

func (s *Service) caseOfPayment(row dbsqlc.Payment, account string) (*caseFile, error) {
	p, err := paymentOf(row)
	if err != nil {
		return nil, err
	}
	return &caseFile{
		movement:  &charge{service: s, merchant: Merchant{Tenant: p.Tenant, PSPAccount: account}, payment: &p},
		execution: execution(p.Tenant, CreateOperation, row.IdempotencyKey, row.ID, row.Generation),
	}, nil
}

func (s *Service) refundCase(ctx context.Context, id uuid.UUID) (*caseFile, error) {
	var row dbsqlc.FindRefundRow
	err := s.db.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var err error
		row, err = dbsqlc.New(c).FindRefund(ctx, id)
		return err
	})
	if err != nil {
		return nil, notOurs(err)
	}
	return s.caseOfRefund(row.Refund, row.Payment, row.PspAccount)
}

func (s *Service) caseOfRefund(row dbsqlc.Refund, of dbsqlc.Payment, account string) (*caseFile, error) {
	p, err := paymentOf(of)
	if err != nil {
		return nil, err
	}
	r := refundOf(row)
	return &caseFile{
		movement:  &giveback{service: s, merchant: Merchant{Tenant: p.Tenant, PSPAccount: account}, payment: p, refund: &r},
		execution: execution(p.Tenant, RefundOperation, row.IdempotencyKey, row.ID, row.Generation),
	}, nil
}

// execution names a movement's generation of its key. Which attempt it is, the key's row says.
func execution(tenant, operation, key string, subject uuid.UUID, generation int32) idempotency.Execution {
	return idempotency.Execution{
		Ref:     idempotency.StoredRef(string(idempotency.ScopeOf(tenant, operation)), key),
		Subject: subject, Generation: generation,
	}
}

func notOurs(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errNotOurs
	}
	return fmt.Errorf("find movement: %w", err)
}
