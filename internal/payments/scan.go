package payments

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Progress is the result of one run of a scan.
type Progress string

// The results of a run that did not fail.
const (
	ReachedEnd Progress = "reached_end" // the run has read to the end of the PSP's list
	GotOn      Progress = "got_on"      // there is more, and the next run begins further on in the list
	Stalled    Progress = "stalled"     // there is more, but the next run begins where this run began
)

// Scan reads the PSP's own list of one account's movements, and judges the records that our books do not confirm. A
// walk goes from its first position to the end of the list. It takes as many runs as it needs: a run reads at most
// pages pages, and begins no further page after enough is closed. The next run continues where the last one ended, also
// if that run has failed.
//
// A new walk begins overlap before the watermark, or before the beginning of the last walk if that is earlier. A scan
// leaves a key alone while somebody else is working on it, if a lookup finds the record, too. The next walk should see
// the record again after that work has ended; it does not if the record was old when it was read, as after an outage.
// The first walk begins overlap before the tenant was created, because older records of the account are not ours.
// Within a walk, the position is a time of the PSP's clock.
func (s *Service) Scan(
	ctx context.Context, o gateway.Object, account string, overlap time.Duration, pages int, enough <-chan struct{},
	found func(Effect),
) (Progress, error) {
	w, err := s.beginWalk(ctx, o, account, overlap)
	switch {
	case errors.Is(err, errNoSuchAccount):
		return ReachedEnd, nil // The account belongs to no tenant, so there is nothing to read.
	case err != nil:
		return "", err
	}
	progress, err := s.walkPages(ctx, w, pages, enough, found)
	// If this process is being stopped, the run has not failed because of the ledger.
	if progress == Stalled || err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		err = errors.Join(err, s.failWalk(ctx, w, err))
	}
	return progress, err
}

func (s *Service) walkPages(
	ctx context.Context, w walk, pages int, enough <-chan struct{}, found func(Effect),
) (Progress, error) {
	cursor, read := "", w.after
	for range untilClosed(pages, enough) {
		// Crash window 17: the walk is begun, and the page not read.
		page, err := s.psps.Of(w.psp).List(ctx, w.object, w.account, w.after, cursor)
		if err != nil {
			return "", fmt.Errorf("list the PSP's ledger: %w", err)
		}
		// Crash window 18: read, not judged.
		err = s.judgePage(ctx, w, page, found)
		if err != nil {
			return "", err
		}
		if to := page.Reached(); !to.IsZero() {
			// Crash window 19: judged, not advanced. The position follows the evidence: the page is read again.
			read = to
			err = s.advanceWalk(ctx, w, read)
			if err != nil {
				return "", err
			}
		}
		if cursor = page.Next; cursor == "" {
			return ReachedEnd, s.endWalk(ctx, w) // Crash window 20: at the end, not ended.
		}
	}
	if read.Sub(w.after) <= time.Microsecond { // The next run goes back by a microsecond, so this is no progress.
		return Stalled, nil
	}
	return GotOn, nil
}

// untilClosed counts up to most, and stops after enough is closed. It always yields once, so that each run makes
// progress.
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

func (s *Service) judgePage(ctx context.Context, w walk, page gateway.Page, found func(Effect)) error {
	page, err := s.withoutForeign(ctx, w, page)
	if err != nil {
		return err
	}
	s.metrics.Foreign(string(w.object), page.Foreign)
	for _, u := range page.Unreadable {
		finding, err := s.putUnreadable(ctx, w, u)
		if err != nil {
			return err
		}
		found(finding)
	}
	open, err := s.unexplained(ctx, w.object, w.account, page.Records)
	if err != nil {
		return err
	}
	for _, record := range open {
		finding, err := s.ApplyRecord(ctx, judge.Record{Source: judge.SourceScan, PSP: w.psp, Record: record})
		if err != nil {
			return fmt.Errorf("apply record of scan: %w", err)
		}
		found(finding)
	}
	return nil
}

// errNoSuchAccount says that an account belongs to no tenant.
var errNoSuchAccount = errors.New("account of no tenant")

// walk is the reading of one ledger from a position to its end. It may take several runs.
type walk struct {
	psp     string
	account string
	object  gateway.Object
	after   time.Time // the position at which this run begins
	began   time.Time // identifies the walk
}

// beginWalk continues the walk that was not finished, or begins a new one. It fails with errNoSuchAccount.
//
// beginWalk, advanceWalk and endWalk each write once. A lost acknowledgement is an error of the run. Each write may be
// repeated, because the next run continues from what is stored.
func (s *Service) beginWalk(
	ctx context.Context, o gateway.Object, account string, overlap time.Duration,
) (walk, error) {
	// A statement of its own: under an INSERT … SELECT, Citus gives NULL for a subquery in RETURNING.
	tenant, err := dbsqlc.New(s.db.Reader()).TenantOfAccount(ctx, account)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return walk{}, errNoSuchAccount
	case err != nil:
		return walk{}, fmt.Errorf("find tenant of account: %w", err)
	}
	var row dbsqlc.BeginWalkRow
	err = s.writeWalk(ctx, "begin", func(ctx context.Context, q *dbsqlc.Queries) (err error) {
		row, err = q.BeginWalk(ctx, dbsqlc.BeginWalkParams{Account: account, Object: string(o), Overlap: overlap})
		return err
	})
	if err != nil {
		return walk{}, err
	}
	return walk{psp: tenant.Psp, account: account, object: o, after: row.ResumeAfter, began: row.WalkBegan}, nil
}

// advanceWalk stores that everything up to a time has been read.
func (s *Service) advanceWalk(ctx context.Context, w walk, to time.Time) error {
	return s.writeWalk(ctx, "advance", func(ctx context.Context, q *dbsqlc.Queries) error {
		return q.AdvanceWalk(ctx, dbsqlc.AdvanceWalkParams{
			Account: w.account, Object: string(w.object), WalkBegan: w.began, ReadTo: to,
		})
	})
}

// endWalk stores that the walk has reached the end of the list.
func (s *Service) endWalk(ctx context.Context, w walk) error {
	return s.writeWalk(ctx, "end", func(ctx context.Context, q *dbsqlc.Queries) error {
		return q.EndWalk(ctx, dbsqlc.EndWalkParams{Account: w.account, Object: string(w.object), WalkBegan: w.began})
	})
}

func (s *Service) writeWalk(
	ctx context.Context, what string, write func(context.Context, *dbsqlc.Queries) error,
) error {
	err := s.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) error {
		return write(ctx, dbsqlc.New(q))
	})
	if err != nil {
		return fmt.Errorf("%s walk: %w", what, err)
	}
	return nil
}
