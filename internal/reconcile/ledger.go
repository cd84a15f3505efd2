package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/reconcile/internal/dbsqlc"
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
// if that run has failed. The effects are those of what it has read, also then.
//
// A new walk begins ScanOverlap before the watermark, or before the beginning of the last walk if that is earlier. A
// scan leaves a key alone while somebody else is working on it, if a lookup finds the record, too. The next walk should
// see the record again after that work has ended; it does not if the record was old when it was read, as after an
// outage. A dispute changes for weeks after it was opened. So one walk in each ScanOverlap begins before the oldest
// dispute that is open. The first walk begins ScanOverlap before the tenant was created: older records of the account
// are not ours. Within a walk, the position is a time of the PSP's clock.
func (r *Reconciler) Scan(
	ctx context.Context, o gateway.Object, account string, pages int, enough <-chan struct{},
) (progress Progress, effects []payments.Effect, err error) {
	// A statement of its own: where rows lie on several servers, a subquery in RETURNING may give NULL.
	psp, err := dbsqlc.New(r.DB.Reader()).PSPOfAccount(ctx, account)
	if errors.Is(err, pgx.ErrNoRows) {
		return ReachedEnd, nil, nil // The account belongs to no tenant, so there is nothing to read.
	}
	if err != nil {
		return "", nil, fmt.Errorf("find PSP of account: %w", err)
	}
	w, err := r.beginWalk(ctx, psp, o, account)
	if err != nil {
		return "", nil, err
	}
	progress, effects, err = r.walkPages(ctx, w, pages, enough)
	// If this process is being stopped, the run has not failed because of the ledger.
	if progress == Stalled || err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		err = errors.Join(err, r.failWalk(ctx, w, err))
	}
	return progress, effects, err
}

func (r *Reconciler) walkPages(
	ctx context.Context, w walk, pages int, enough <-chan struct{},
) (_ Progress, effects []payments.Effect, _ error) {
	cursor, read := "", w.after
	for range untilClosed(pages, enough) {
		// Crash window 17: the walk is begun, and the page not read.
		page, err := r.PSPs.Of(w.psp).List(ctx, w.object, w.account, w.after, cursor)
		if err != nil {
			return "", effects, fmt.Errorf("list the PSP's %ss: %w", w.object, err)
		}
		// Crash window 18: read, not judged.
		effects, err = r.judgePage(ctx, w, page, effects)
		if err != nil {
			return "", effects, err
		}
		if to := page.Reached(); !to.IsZero() {
			// Crash window 19: judged, not advanced. The position follows the evidence: the page is read again.
			read = to
			err = r.advanceWalk(ctx, w, read)
			if err != nil {
				return "", effects, err
			}
		}
		if cursor = page.Next; cursor == "" {
			return ReachedEnd, effects, r.endWalk(ctx, w) // Crash window 20: at the end, not ended.
		}
	}
	if read.Sub(w.after) <= time.Microsecond { // The next run goes back by a microsecond, so this is no progress.
		return Stalled, effects, nil
	}
	return GotOn, effects, nil
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

// judgePage appends what the records of a page have changed to the effects.
func (r *Reconciler) judgePage(
	ctx context.Context, w walk, page gateway.Page, effects []payments.Effect,
) ([]payments.Effect, error) {
	page, err := r.Payments.Unexplained(ctx, w.psp, w.object, w.account, page)
	if err != nil {
		return effects, err
	}
	r.Metrics.Foreign(string(w.object), page.Foreign)
	for _, u := range page.Unreadable {
		effect, err := r.putUnreadable(ctx, w, u)
		if err != nil {
			return effects, err
		}
		effects = append(effects, effect)
	}
	for _, record := range page.Records {
		effect, err := r.Payments.ApplyRecord(ctx, judge.Record{Source: judge.SourceScan, PSP: w.psp, Record: record})
		if err != nil {
			return effects, fmt.Errorf("apply record of scan: %w", err)
		}
		effects = append(effects, effect)
	}
	return effects, nil
}

// walk is the reading of one ledger from a position to its end. It may take several runs.
type walk struct {
	psp     string
	account string
	object  gateway.Object
	after   time.Time // the position at which this run begins
	began   time.Time // identifies the walk
}

// beginWalk continues the walk that was not finished, or begins a new one.
//
// beginWalk, advanceWalk and endWalk each write once. A lost acknowledgement is an error of the run. Each write may be
// repeated, because the next run continues from what is stored.
func (r *Reconciler) beginWalk(ctx context.Context, psp string, o gateway.Object, account string) (walk, error) {
	var open *time.Time
	if o == gateway.DisputeObject {
		var err error
		if open, err = r.Payments.OldestOpenDispute(ctx, account); err != nil {
			return walk{}, err
		}
	}
	var row dbsqlc.BeginWalkRow
	err := r.writeWalk(ctx, "begin", func(ctx context.Context, q *dbsqlc.Queries) (err error) {
		row, err = q.BeginWalk(ctx, dbsqlc.BeginWalkParams{Account: account, Object: string(o), Overlap: r.ScanOverlap,
			OldestOpen: open})
		return err
	})
	if err != nil {
		return walk{}, err
	}
	return walk{psp: psp, account: account, object: o, after: row.ResumeAfter, began: row.WalkBegan}, nil
}

// advanceWalk stores that everything up to a time has been read.
func (r *Reconciler) advanceWalk(ctx context.Context, w walk, to time.Time) error {
	return r.writeWalk(ctx, "advance", func(ctx context.Context, q *dbsqlc.Queries) error {
		return q.AdvanceWalk(ctx, dbsqlc.AdvanceWalkParams{
			Account: w.account, Object: string(w.object), WalkBegan: w.began, ReadTo: to,
		})
	})
}

// endWalk stores that the walk has reached the end of the list.
func (r *Reconciler) endWalk(ctx context.Context, w walk) error {
	return r.writeWalk(ctx, "end", func(ctx context.Context, q *dbsqlc.Queries) error {
		return q.EndWalk(ctx, dbsqlc.EndWalkParams{Account: w.account, Object: string(w.object), WalkBegan: w.began})
	})
}

func (r *Reconciler) writeWalk(
	ctx context.Context, what string, write func(context.Context, *dbsqlc.Queries) error,
) error {
	err := r.DB.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) error {
		return write(ctx, dbsqlc.New(q))
	})
	if err != nil {
		return fmt.Errorf("%s walk: %w", what, err)
	}
	return nil
}

// accountsPage is how many accounts one query reads.
const accountsPage = 500

// Accounts are the PSP accounts of all tenants. An error ends them.
func (r *Reconciler) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after, more := "", true; more; {
			accounts, err := dbsqlc.New(r.DB.Reader()).ListAccounts(ctx,
				dbsqlc.ListAccountsParams{After: after, MaxRows: accountsPage})
			if err != nil {
				yield("", fmt.Errorf("list accounts: %w", err))
				return
			}
			for _, after = range accounts {
				if !yield(after, nil) {
					return
				}
			}
			more = len(accounts) == accountsPage
		}
	}
}
