package payments

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Progress is what one run of a scan came to.
type Progress string

// How a run can end that did not fail.
const (
	ReachedEnd Progress = "reached_end" // of the PSP's list
	GotOn      Progress = "got_on"      // there is more, and the next run begins further on
	Stalled    Progress = "stalled"     // there is more, and the next run begins where this one did
)

// Scan walks the PSP's own list of one account's movements and settles what our books do not confirm. A run reads at most pages pages, and
// begins no other one after enough is closed; a walk goes on in the next run where the last one ended, however that was, until it comes to
// the end of the list.
//
// A new walk begins overlap before the watermark: what a scan has left alone, since somebody was at work on it, must come by again after
// that work should have ended. The first one begins overlap before the tenant was created: what was in the account before is not ours.
// Otherwise the position is a time of the PSP's own clock, so no other clock is compared with it.
func (s *Service) Scan(
	ctx context.Context, o gateway.Object, account string, overlap time.Duration, pages int, enough <-chan struct{}, found func(Finding),
) (Progress, error) {
	w, err := s.beginWalk(ctx, o, account, overlap)
	switch {
	case errors.Is(err, errNoSuchAccount):
		return ReachedEnd, nil // of an account that is no tenant's
	case err != nil:
		return "", err
	}
	progress, err := s.goAlong(ctx, w, pages, enough, found)
	// A process that is told to stop says nothing of the ledger.
	if progress == Stalled || err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		err = errors.Join(err, s.failWalk(ctx, w, err))
	}
	return progress, err
}

func (s *Service) goAlong(ctx context.Context, w walk, pages int, enough <-chan struct{}, found func(Finding)) (Progress, error) {
	cursor, read := "", w.after
	for range untilClosed(pages, enough) {
		// Crash window 17: the walk is begun, and the page not read.
		page, err := s.psp.List(ctx, w.object, w.account, w.after, cursor)
		if err != nil {
			return "", fmt.Errorf("list the PSP's ledger: %w", err)
		}
		// Crash window 18: read, not settled.
		err = s.settlePage(ctx, w, page, found)
		if err != nil {
			return "", err
		}
		if n := len(page.Records); n > 0 {
			// Crash window 19: settled, not advanced. Behind the evidence: the page is read once more.
			read = page.Records[n-1].Created
			err = s.advanceWalk(ctx, w, read)
			if err != nil {
				return "", err
			}
		}
		if cursor = page.Next; cursor == "" {
			return ReachedEnd, s.endWalk(ctx, w) // Crash window 20: at the end, not ended.
		}
	}
	if read.Sub(w.after) <= time.Microsecond { // so much is read again
		return Stalled, nil
	}
	return GotOn, nil
}

// untilClosed counts up to most, and no further after enough is closed. It begins in any case: a run has to get on.
func untilClosed(most int, enough <-chan struct{}) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range most {
			if !yield(i) {
				return
			}
			select {
			case <-enough:
				return
			default:
			}
		}
	}
}

func (s *Service) settlePage(ctx context.Context, w walk, page gateway.Page, found func(Finding)) error {
	for _, u := range page.Unreadable {
		finding, err := s.putUnreadable(ctx, w, u)
		if err != nil {
			return err
		}
		found(finding)
	}
	open, err := s.Unexplained(ctx, w.object, w.account, page.Records)
	if err != nil {
		return err
	}
	for _, record := range open {
		finding, err := s.Settle(ctx, Record{Source: SourceScan, Record: record})
		if err != nil {
			return fmt.Errorf("settle by scan: %w", err)
		}
		found(finding)
	}
	return nil
}

// errNoSuchAccount says that an account is no tenant's.
var errNoSuchAccount = errors.New("account of no tenant")

// walk is one way along one ledger, from somewhere to its end, in as many runs as it takes.
type walk struct {
	account string
	object  gateway.Object
	after   time.Time // where this run begins
	began   time.Time // names the walk
}

// beginWalk goes on with the walk that was not finished, or begins one. It fails with errNoSuchAccount.
//
// Of the three writes of a walk, a lost acknowledgement is an error of the run. Each may be written twice: the next run goes on from what is there.
func (s *Service) beginWalk(ctx context.Context, o gateway.Object, account string, overlap time.Duration) (walk, error) {
	var row dbsqlc.BeginWalkRow
	known := true
	err := s.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
		row, err = dbsqlc.New(q).BeginWalk(ctx, dbsqlc.BeginWalkParams{Account: account, Object: string(o), Overlap: overlap})
		if errors.Is(err, pgx.ErrNoRows) {
			known = false
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return walk{}, fmt.Errorf("begin walk: %w", err)
	case !known:
		return walk{}, errNoSuchAccount
	}
	return walk{account: account, object: o, after: row.ResumeAfter, began: row.WalkBegan}, nil
}

// advanceWalk notes that everything up to a time has been read.
func (s *Service) advanceWalk(ctx context.Context, w walk, to time.Time) error {
	err := s.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).AdvanceWalk(ctx, dbsqlc.AdvanceWalkParams{
			Account: w.account, Object: string(w.object), WalkBegan: w.began, ReadTo: to,
		})
	})
	if err != nil {
		return fmt.Errorf("advance walk: %w", err)
	}
	return nil
}

// endWalk notes that the end of the list was reached.
func (s *Service) endWalk(ctx context.Context, w walk) error {
	err := s.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).EndWalk(ctx, dbsqlc.EndWalkParams{Account: w.account, Object: string(w.object), WalkBegan: w.began})
	})
	if err != nil {
		return fmt.Errorf("end walk: %w", err)
	}
	return nil
}
