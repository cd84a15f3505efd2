package statement

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/statement/internal/dbsqlc"
)

// published is how long after the end of a day its statement may take.
const published = 4 * time.Hour

// Due is an account's day that is over and that no run has judged.
type Due struct {
	Account string
	Day     time.Time
}

// Missing lists what is due of the last days, newest first: up to yesterday, or the day before while the PSP may still be writing
// yesterday's statement, and from the day on which the tenant came to be.
func (r *Reconciler) Missing(ctx context.Context, days int32) ([]Due, error) {
	now, err := r.now(ctx)
	if err != nil {
		return nil, err
	}
	return r.missing(ctx, lastPublished(now), days)
}

// lastPublished is the last day of which a statement can be expected.
func lastPublished(now time.Time) time.Time { return dayOf(now.Add(-published)).Add(-oneDay) }

func (r *Reconciler) missing(ctx context.Context, last time.Time, days int32) ([]Due, error) {
	missing, err := dbsqlc.New(r.config.DB.Reader()).MissingDays(ctx, dbsqlc.MissingDaysParams{LastDay: dateOf(last), Days: days})
	if err != nil {
		return nil, fmt.Errorf("list days without a run: %w", err)
	}
	var due []Due
	for _, m := range missing {
		due = append(due, Due{Account: m.Account, Day: m.Day.Time})
	}
	return due, nil
}
