package statement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/internal/statement/internal/dbsqlc"
)

// Refusals of a run. They and gateway.ErrNoStatement come wrapped with the account and the day.
var (
	ErrBreaks     = errors.New("breaks found")
	ErrBusy       = errors.New("another run reconciles this day")
	ErrNoAccount  = errors.New("no tenant has this PSP account")
	ErrNotYetDay  = errors.New("the day has not begun")
	errNoAccounts = errors.New("there are no tenants")
)

const (
	// rejudged is how far back a run looks for days with pending movements, beyond the horizon that makes them so.
	rejudged = 7 * oneDay
	// maxSkew and maxHorizon bound how many statements one run can come to read.
	maxSkew    = 6 * time.Hour
	maxHorizon = 31 * oneDay
)

// Config is what a Reconciler needs.
type Config struct {
	DB    *postgres.DB
	PSP   *gateway.Client
	NewID func() (uuid.UUID, error)
	// Skew is the largest difference between the PSP's clock and the database's.
	Skew time.Duration
	// Horizon is how long after its creation a movement can still be executed: the PSP's memory of a key, and a bit.
	Horizon time.Duration
	// Limit is the longest time for an account's day, from the first line to the commit.
	Limit time.Duration
	// Progress, if there is one, is told after every Every lines, and at the end of a statement.
	Progress func(Progress)
	Every    int64
	// OnBreak, if there is one, is told of each break that was not there before, in the transaction that writes it. Its
	// error undoes the run of that day.
	OnBreak func(ctx context.Context, tx pgx.Tx, b Break) error
}

// DefaultConfig has the figures of the design; the parts and hooks are still to be filled in.
func DefaultConfig() Config {
	return Config{Skew: 5 * time.Minute, Horizon: 25 * time.Hour, Limit: time.Hour, Every: 10_000}
}

// Progress tells how far the reading of a statement is.
type Progress struct {
	Account string
	Day     time.Time
	Lines   int64
	Done    bool // it was the last line
}

// Reconciler compares statements with our books.
type Reconciler struct{ config Config }

// New checks the config.
func New(c Config) (*Reconciler, error) {
	switch {
	case c.DB == nil || c.PSP == nil || c.NewID == nil:
		return nil, errors.New("a reconciler needs a database, a PSP and ids")
	case c.Skew <= 0 || c.Skew > maxSkew:
		return nil, fmt.Errorf("clock skew must be positive and at most %s", maxSkew)
	case c.Horizon <= 0 || c.Horizon > maxHorizon:
		return nil, fmt.Errorf("horizon must be positive and at most %s", maxHorizon)
	case c.Limit <= 0 || c.Every <= 0:
		return nil, errors.New("the limit of a run and the step of its progress must be positive")
	}
	return &Reconciler{config: c}, nil
}

// Yesterday is the last day that is over, by the database's clock.
func (r *Reconciler) Yesterday(ctx context.Context) (time.Time, error) {
	now, err := r.now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return dayOf(now).Add(-oneDay), nil
}

// now is the time by the database's clock.
func (r *Reconciler) now(ctx context.Context) (time.Time, error) {
	now, err := dbsqlc.New(r.config.DB.Reader()).Clock(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read clock: %w", err)
	}
	return now, nil
}

// Run reconciles a day, UTC, of the named PSP accounts, or of all. Days before it that were left with pending movements are
// judged anew. One account's failure does not stop the others: the report has what was done, the error what was not.
func (r *Reconciler) Run(ctx context.Context, day time.Time, accounts ...string) (Report, error) {
	report := Report{Day: dayOf(day)}
	tenants, err := r.find(ctx, accounts)
	if err != nil {
		return report, err
	}
	var failures []error
	for _, t := range tenants {
		days, err := r.days(ctx, t.Account, report.Day)
		if err != nil {
			failures = append(failures, fmt.Errorf("account %s: %w", t.Account, err))
			continue
		}
		for _, d := range days {
			summary, err := r.reconcile(ctx, t, d)
			if err != nil && ctx.Err() != nil {
				return report, fmt.Errorf("called off: %w", ctx.Err()) // which the PSP's client has no words for
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("account %s, %s: %w", t.Account, d.Format(time.DateOnly), err))
				continue
			}
			report.Runs = append(report.Runs, summary)
		}
	}
	return report, errors.Join(failures...)
}

// find looks up whose accounts they are.
func (r *Reconciler) find(ctx context.Context, accounts []string) ([]dbsqlc.FindAccountsRow, error) {
	if accounts == nil {
		accounts = []string{}
	}
	found, err := dbsqlc.New(r.config.DB.Reader()).FindAccounts(ctx, accounts)
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	for _, account := range accounts {
		if !slices.ContainsFunc(found, func(t dbsqlc.FindAccountsRow) bool { return t.Account == account }) {
			return nil, fmt.Errorf("account %q: %w", account, ErrNoAccount)
		}
	}
	if len(found) == 0 {
		return nil, errNoAccounts
	}
	return found, nil
}

// days lists those to be judged, oldest first, day itself last.
func (r *Reconciler) days(ctx context.Context, account string, day time.Time) ([]time.Time, error) {
	pending, err := dbsqlc.New(r.config.DB.Reader()).PendingDays(ctx, dbsqlc.PendingDaysParams{
		Account: account, FirstDay: dateOf(dayOf(day.Add(-r.config.Horizon - rejudged))), Before: dateOf(day),
	})
	if err != nil {
		return nil, fmt.Errorf("list days with pending movements: %w", err)
	}
	var days []time.Time
	for _, p := range pending {
		days = append(days, p.Time)
	}
	return append(days, day), nil
}
