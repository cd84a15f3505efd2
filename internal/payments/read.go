package payments

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Payment reads a payment of the tenant. For another tenant's payment it fails with ErrPaymentNotFound, as if there
// were none.
func (b *Books) Payment(ctx context.Context, tenant string, id payment.ID) (payment.Payment, error) {
	p, err := b.readPayment(ctx, tenant, id, b.db.ReadNow)
	if err == nil {
		err = withLives(ctx, b.db, tenant, &p)
	}
	return p, err
}

// PaymentToTell is Payment for a client, who acts on it. See readToTell.
func (b *Books) PaymentToTell(ctx context.Context, tenant string, id payment.ID) (p payment.Payment, err error) {
	p, err = rowToTell(ctx, b, tenant, id)
	if err == nil {
		err = withLives(ctx, b.db, tenant, &p)
	}
	return p, err
}

// rowToTell is PaymentToTell without what became of the payment after its charge.
func rowToTell(ctx context.Context, b *Books, tenant string, id payment.ID) (payment.Payment, error) {
	return readToTell(b, func(read reading) (payment.Payment, bool, error) {
		p, err := b.readPayment(ctx, tenant, id, read)
		return p, p.Status != payment.Processing, err
	})
}

func (b *Books) readPayment(
	ctx context.Context, tenant string, id payment.ID, read reading,
) (p payment.Payment, err error) {
	err = read(ctx, func(ctx context.Context, q postgres.DBTX) error {
		row, err := dbsqlc.New(q).GetPayment(ctx, dbsqlc.GetPaymentParams{ID: uuid.UUID(id), TenantID: tenant})
		if err == nil {
			p, err = paymentOf(row)
		}
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return payment.Payment{}, ErrPaymentNotFound
	}
	if err != nil {
		return payment.Payment{}, fmt.Errorf("read payment: %w", err)
	}
	return p, nil
}

// RefundByID reads a refund of the tenant. For another tenant's refund it fails with ErrRefundNotFound, as if there
// were none.
func (b *Books) RefundByID(ctx context.Context, tenant string, id payment.RefundID) (payment.Refund, error) {
	return b.readRefund(ctx, tenant, id, b.db.ReadNow)
}

// RefundToTell is RefundByID for a client, who acts on it. See readToTell.
func (b *Books) RefundToTell(ctx context.Context, tenant string, id payment.RefundID) (payment.Refund, error) {
	return readToTell(b, func(read reading) (payment.Refund, bool, error) {
		r, err := b.readRefund(ctx, tenant, id, read)
		return r, r.Status != payment.Processing, err
	})
}

func (b *Books) readRefund(
	ctx context.Context, tenant string, id payment.RefundID, read reading,
) (r payment.Refund, err error) {
	err = read(ctx, func(ctx context.Context, q postgres.DBTX) error {
		row, err := dbsqlc.New(q).FindRefund(ctx, dbsqlc.FindRefundParams{TenantID: tenant, ID: (*uuid.UUID)(&id)})
		r = refundOf(row.Refund)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return payment.Refund{}, ErrRefundNotFound
	}
	if err != nil {
		return payment.Refund{}, fmt.Errorf("read refund: %w", err)
	}
	return r, nil
}

// MaxPage is the largest page.
const MaxPage = 100

// Filter selects payments. An empty field selects all.
type Filter struct {
	CustomerID string
	Reference  string
	Status     payment.Status
	Before     *payment.ID // the cursor: only payments that are older than this one
	Limit      int         // 1 to MaxPage
	// Only payments that were created at CreatedAfter or later, and before CreatedBefore, by the database's clock.
	CreatedAfter, CreatedBefore *time.Time
}

// IDSkew is how far the clock of the process that has made an id may differ from the database's clock, which has set
// created_at. If they differ by more, lists by time leave the payment out, and nobody notices if the PSP's statement
// leaves it out, too.
const IDSkew = 24 * time.Hour

// ids are the bounds of the ids that can be selected: first <= id < end.
func (f Filter) ids() (first, end uuid.UUID) {
	end = lastID()
	if f.CreatedAfter != nil {
		first = FirstIDAt(f.CreatedAfter.Add(-IDSkew))
	}
	if f.CreatedBefore != nil {
		end = FirstIDAt(f.CreatedBefore.Add(IDSkew))
	}
	if f.Before != nil && bytes.Compare(f.Before[:], end[:]) < 0 {
		end = uuid.UUID(*f.Before)
	}
	return first, end
}

// FirstIDAt is not greater than any UUIDv7 that was made at this time or later.
func FirstIDAt(t time.Time) (id uuid.UUID) {
	const bits = 48 // of milliseconds since 1970 (RFC 9562, section 5.7)
	ms := min(max(t.UnixMilli(), 0), 1<<bits-1)
	binary.BigEndian.PutUint64(id[:8], uint64(ms)<<16)
	return id
}

// Page is a part of a list, newest first. Next is the cursor of the next page, and nil on the last page.
type Page struct {
	Payments []payment.Payment
	Next     *payment.ID
}

// PaymentsToTell is Payments for a client, who acts on it. See readToTell.
func (b *Books) PaymentsToTell(ctx context.Context, tenant string, f Filter) (Page, error) {
	page, err := readToTell(b, func(read reading) (Page, bool, error) { return b.readPayments(ctx, tenant, f, read) })
	if err == nil {
		err = withLives(ctx, b.db, tenant, page.all()...)
	}
	return page, err
}

// readPayments also says whether all payments of the page are final.
func (b *Books) readPayments(
	ctx context.Context, tenant string, f Filter, read reading,
) (page Page, final bool, err error) {
	first, end := f.ids()
	var rows []dbsqlc.Payment
	err = read(ctx, func(ctx context.Context, q postgres.DBTX) (err error) {
		rows, err = dbsqlc.New(q).ListPayments(ctx, dbsqlc.ListPaymentsParams{
			TenantID: tenant, Before: end, Oldest: first, CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore,
			CustomerID: postgres.Nullable(f.CustomerID), Reference: postgres.Nullable(f.Reference),
			Status: postgres.Nullable(string(f.Status)), MaxRows: rowsOf(f.Limit),
		})
		return err
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("list payments: %w", err)
	}
	page, final = Page{Payments: make([]payment.Payment, 0, len(rows))}, true
	for _, row := range rows {
		p, err := paymentOf(row)
		if err != nil {
			return Page{}, false, fmt.Errorf("read payment: %w", err)
		}
		page.Payments, final = append(page.Payments, p), final && p.Status != payment.Processing
	}
	if len(rows) > f.Limit {
		page.Payments = page.Payments[:f.Limit]
		page.Next = &page.Payments[f.Limit-1].ID
	}
	return page, final, nil
}

// RefundFilter selects refunds of one payment. An empty field selects all.
type RefundFilter struct {
	Before *payment.RefundID // the cursor: only refunds that are older than this one
	Limit  int               // 1 to MaxPage
}

// RefundPage is a part of a list, as Page is.
type RefundPage struct {
	Refunds []payment.Refund
	Next    *payment.RefundID
}

// RefundsToTell is Refunds for a client, who acts on it. See readToTell.
func (b *Books) RefundsToTell(ctx context.Context, tenant string, id payment.ID, f RefundFilter) (RefundPage, error) {
	return readToTell(b, func(read reading) (RefundPage, bool, error) {
		return b.readRefunds(ctx, tenant, id, f, read)
	})
}

// readRefunds also says whether all refunds of the page are final.
func (b *Books) readRefunds(
	ctx context.Context, tenant string, id payment.ID, f RefundFilter, read reading,
) (page RefundPage, final bool, err error) {
	before := lastID()
	if f.Before != nil {
		before = uuid.UUID(*f.Before)
	}
	var rows []dbsqlc.Refund
	err = read(ctx, func(ctx context.Context, q postgres.DBTX) (err error) {
		rows, err = dbsqlc.New(q).ListRefunds(ctx, dbsqlc.ListRefundsParams{
			TenantID: tenant, PaymentID: uuid.UUID(id), Before: before, MaxRows: rowsOf(f.Limit),
		})
		return err
	})
	if err != nil {
		return RefundPage{}, false, fmt.Errorf("list refunds: %w", err)
	}
	if len(rows) == 0 { // A refund has its payment. Without one, the payment may not be there, or not be the tenant's.
		if _, err := b.readPayment(ctx, tenant, id, read); err != nil {
			return RefundPage{}, false, err
		}
	}
	page, final = RefundPage{Refunds: make([]payment.Refund, 0, len(rows))}, true
	for _, row := range rows {
		r := refundOf(row)
		page.Refunds, final = append(page.Refunds, r), final && r.Status != payment.Processing
	}
	if len(rows) > f.Limit {
		page.Refunds = page.Refunds[:f.Limit]
		page.Next = &page.Refunds[f.Limit-1].ID
	}
	return page, final, nil
}

// rowsOf is one row more than the page has: it says whether there is another page.
func rowsOf(limit int) int32 {
	return int32(min(limit, MaxPage) + 1) //nolint:gosec // bounded by MaxPage
}

// lastID is greater than every UUIDv7. It is the cursor of the first page.
func lastID() uuid.UUID { return uuid.Max }
