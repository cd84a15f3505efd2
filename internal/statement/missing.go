package statement

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/statement/internal/dbsqlc"
)

// published is how long after the end of a day the PSP may take to publish its statement.
const published = 4 * time.Hour

// Due is a day of an account that is over, and that no run has judged completely.
type Due struct {
	Account string
	Day     time.Time
}

// Missing lists the days that are due, newest first. It looks back so many days from the last day whose statement
// should be published, but not further than to the day on which the tenant was created.
func (r *Reconciler) Missing(ctx context.Context, days int32) ([]Due, error) {
	now, err := r.now(ctx)
	if err != nil {
		return nil, err
	}
	return r.missing(ctx, lastPublished(now), days)
}

// lastPublished is the last day whose statement should be published.
func lastPublished(now time.Time) time.Time { return dayOf(now.Add(-published)).Add(-oneDay) }

func (r *Reconciler) missing(ctx context.Context, last time.Time, days int32) ([]Due, error) {
	missing, err := dbsqlc.New(r.config.DB.Reader()).MissingDays(ctx,
		dbsqlc.MissingDaysParams{LastDay: dateOf(last), Days: days})
	if err != nil {
		return nil, fmt.Errorf("list days without a run: %w", err)
	}
	var due []Due
	for _, m := range missing {
		due = append(due, Due{Account: m.Account, Day: m.Day.Time})
	}
	return due, nil
}
