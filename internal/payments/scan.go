package payments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/gateway"
	"payonce/internal/payments/internal/dbsqlc"
)

// Scan walks the PSP's own list of one account's movements, from the durable watermark on, and settles what our books do not confirm.
// It reads at most pages pages beyond the watermark, and tells whether there is more.
//
// overlap is read again each time: what a scan has left alone, since somebody was at work on it, must come by again after that
// work should have ended. The watermark is a time of the PSP's own clock, so no other clock is compared with it.
func (s *Service) Scan(
	ctx context.Context, o gateway.Object, account string, overlap time.Duration, pages int, found func(Finding),
) (more bool, err error) {
	mark, err := s.watermark(ctx, o, account)
	if err != nil {
		return false, err
	}
	after := mark
	if !after.IsZero() {
		after = after.Add(-overlap)
	}
	cursor := ""
	for read := 0; read < pages; {
		page, err := s.psp.List(ctx, o, account, after, cursor)
		if err != nil {
			return false, fmt.Errorf("list the PSP's ledger: %w", err)
		}
		if err := s.settlePage(ctx, o, page.Records, found); err != nil {
			return false, err
		}
		if n := len(page.Records); n > 0 {
			// Behind the evidence: after a crash in between, the page is read once more.
			last := page.Records[n-1].Created
			if err := s.raiseWatermark(ctx, o, account, last); err != nil {
				return false, err
			}
			// Pages of the overlap do not count: were there more of them than that, the scan would never get beyond them.
			if last.After(mark) {
				read++
			}
		}
		if cursor = page.Next; cursor == "" {
			return false, s.raiseWatermark(ctx, o, account, time.Time{})
		}
	}
	return true, nil
}

func (s *Service) settlePage(ctx context.Context, o gateway.Object, page []gateway.Record, found func(Finding)) error {
	open, err := s.Unexplained(ctx, o, page)
	if err != nil {
		return err
	}
	for _, record := range open {
		finding, err := s.Settle(ctx, Evidence{Source: SourceScan, Record: record})
		if err != nil {
			return fmt.Errorf("settle by scan: %w", err)
		}
		found(finding)
	}
	return nil
}

// watermark is zero for a ledger that was never read.
func (s *Service) watermark(ctx context.Context, o gateway.Object, account string) (time.Time, error) {
	var at time.Time
	err := s.db.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var err error
		at, err = dbsqlc.New(c).GetWatermark(ctx, dbsqlc.GetWatermarkParams{Account: account, Object: string(o)})
		return err
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read watermark: %w", err)
	}
	return at, nil
}

// raiseWatermark notes that everything up to at has been read; a zero at, that the ledger was read to its end.
func (s *Service) raiseWatermark(ctx context.Context, o gateway.Object, account string, at time.Time) error {
	err := s.db.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		return dbsqlc.New(c).RaiseWatermark(ctx, dbsqlc.RaiseWatermarkParams{Account: account, Object: string(o), ScannedTo: at})
	})
	if err != nil {
		return fmt.Errorf("raise watermark: %w", err)
	}
	return nil
}
