package statement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/internal/statement/internal/dbsqlc"
)

// published is how long after the end of a day the PSP may take to publish its statement.
const published = 4 * time.Hour

// Due is a day of an account that must be judged, for the first time or again.
type Due struct {
	Account string
	Day     time.Time
}

// Due lists the days that must be judged: the days that no run has judged completely, each account's oldest first, and
// then the days whose pending movements can be judged now. It looks at so many days up to the last day whose statement
// should be published, and before them back to the last day that was judged. An account whose PSP publishes no
// statements has no such days: a run would wait for a file that never comes.
func (r *Reconciler) Due(ctx context.Context, days int32) ([]Due, error) {
	now, err := r.config.DB.Clock(ctx)
	if err != nil {
		return nil, err
	}
	q := dbsqlc.New(r.config.DB.Reader())
	missing, err := q.MissingDays(ctx, dbsqlc.MissingDaysParams{LastDay: dateOf(lastPublished(now)), Days: days})
	if err != nil {
		return nil, fmt.Errorf("list days without a run: %w", err)
	}
	tenants, err := q.FindAccounts(ctx, []string{})
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	without := map[string]bool{}
	tenants = slices.DeleteFunc(tenants, func(t dbsqlc.FindAccountsRow) bool {
		without[t.Account] = !gateway.Publishes(r.config.PSPs.Of(t.Psp))
		return without[t.Account]
	})
	var due []Due
	for _, m := range missing {
		if !without[m.Account] {
			due = append(due, Due{Account: m.Account, Day: m.Day.Time})
		}
	}
	for _, t := range tenants {
		ripe, err := r.ripe(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("account %s: %w", t.Account, err)
		}
		due = append(due, ripe...)
	}
	return due, nil
}

// lastPublished is the last day whose statement should be published.
func lastPublished(now time.Time) time.Time { return dayOf(now.Add(-published)).Add(-oneDay) }

// ripe lists the days of an account that have a pending movement which is final by now, and which can be in no
// statement after the last one that was judged. A movement that one of these statements has is not pending any more. So
// a day is read again only for a movement that is missing, or whose line was left alone. It forgets the movements that
// were not executed in the end.
func (r *Reconciler) ripe(ctx context.Context, t dbsqlc.FindAccountsRow) (due []Due, err error) {
	if !t.Judged.Valid {
		return nil, nil
	}
	q := dbsqlc.New(r.config.DB.Reader())
	p := dbsqlc.ListPendingParams{Account: t.Account, Before: t.Judged, MaxRows: pageRows,
		AfterDay: pgtype.Date{InfinityModifier: pgtype.NegativeInfinity, Valid: true}}
	for {
		page, err := q.ListPending(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("list pending movements: %w", err)
		}
		asked := dbsqlc.FinalMovementsParams{TenantID: t.Tenant, Known: t.Judged.Time.Add(oneDay), Skew: r.config.Skew}
		for _, m := range page {
			asked.Days = append(asked.Days, m.Day)
			asked.Objects = append(asked.Objects, m.Object)
			asked.Subjects = append(asked.Subjects, m.Subject)
			p.AfterDay, p.AfterObject, p.AfterSubject = m.Day, m.Object, m.Subject
		}
		days, err := r.ripeOf(ctx, t.Account, asked)
		if err != nil {
			return nil, err
		}
		for _, day := range days {
			if d := (Due{Account: t.Account, Day: day.Time}); !slices.Contains(due, d) {
				due = append(due, d)
			}
			if day.Time.Equal(p.AfterDay.Time) {
				p.AfterObject, p.AfterSubject = lastObject, uuid.Max // The rest of this day needs no look.
			}
		}
		if len(page) < pageRows {
			return due, nil
		}
	}
}

// ripeOf lists the days of those pending movements that can be judged, and forgets those that were not executed.
func (r *Reconciler) ripeOf(
	ctx context.Context, account string, asked dbsqlc.FinalMovementsParams,
) (days []pgtype.Date, err error) {
	final, err := dbsqlc.New(r.config.DB.Reader()).FinalMovements(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("find final movements: %w", err)
	}
	unmoved := dbsqlc.ForgetUnmovedParams{Account: account}
	for _, m := range final {
		if m.Moved {
			days = append(days, m.Day)
			continue
		}
		unmoved.Days = append(unmoved.Days, m.Day)
		unmoved.Objects = append(unmoved.Objects, m.Object)
		unmoved.Subjects = append(unmoved.Subjects, m.Subject)
	}
	if len(unmoved.Days) == 0 {
		return days, nil
	}
	var left []pgtype.Date
	err = r.config.DB.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
		left, err = dbsqlc.New(q).ForgetUnmoved(ctx, unmoved)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("forget movements that were not executed: %w", err)
	}
	return append(days, left...), nil
}

// lastObject is not less than any object.
const lastObject = "refund"
