package statement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/postgres"
	"payonce/internal/statement/internal/dbsqlc"
	"payonce/internal/telemetry"
)

// The errors of a run. These and gateway.ErrNoStatement are wrapped with the account and the day.
var (
	ErrBreaks     = errors.New("breaks found")
	ErrBusy       = errors.New("another run reads this account")
	ErrNoAccount  = errors.New("no tenant has this PSP account")
	ErrNotYetDay  = errors.New("the day has not begun")
	ErrTooLong    = errors.New("the statement has too many lines")
	errNoAccounts = errors.New("there are no tenants")
)

// maxHorizon bounds how many statements one run may read: those up to maxHorizon after its own day. A movement that
// was finished later, and is in none of them, is missing. If the statement of its day has it after all, that
// statement's own run has ended the absence, or will.
const maxHorizon = 31 * oneDay

// Config is what a Reconciler needs.
type Config struct {
	DB   *postgres.DB
	PSPs gateway.PSPs
	// Payments judges breaks, in the transaction that writes them. It is package payments' Service.
	Payments interface {
		BreakTx(ctx context.Context, tx pgx.Tx, b judge.Break) (completed bool, err error)
	}
	Metrics *telemetry.Metrics
	NewID   func() (uuid.UUID, error)
	// Skew is the largest difference between the PSP's clock and the database's.
	Skew time.Duration
	// Horizon is how long after its creation a movement whose key was deleted can have been executed: a bit longer than
	// the PSP remembers a key.
	Horizon time.Duration
	// Limit is the longest time for an account's day, from the first line to the commit.
	Limit time.Duration
	// MaxLines bounds a statement. The lines are copied into the database: one without an end would fill its disk, and
	// without a disk nobody can pay.
	MaxLines int64
	// Progress, if it is set, is called after every Every lines, and at the end of a statement.
	Progress func(Progress)
	Every    int64
}

// DefaultConfig has what is no setting, and the default of the horizon. The caller sets the other fields.
func DefaultConfig() Config {
	return Config{Skew: 5 * time.Minute, Horizon: 25 * time.Hour, Limit: time.Hour, MaxLines: 20_000_000, Every: 10_000}
}

// Progress says how much of a statement was read.
type Progress struct {
	Account string
	Day     time.Time
	Lines   int64
	Done    bool // whether this was the last line
}

// Reconciler compares statements with our books.
type Reconciler struct{ config Config }

// New checks the config, and returns a Reconciler.
func New(c Config) (*Reconciler, error) {
	switch {
	case c.DB == nil || len(c.PSPs) == 0 || c.NewID == nil:
		return nil, errors.New("a reconciler needs a database, a PSP and ids")
	case c.Horizon <= 0 || c.Horizon > maxHorizon:
		return nil, fmt.Errorf("horizon must be positive and at most %s", maxHorizon)
	}
	return &Reconciler{config: c}, nil
}

// Yesterday is the last day that is over, by the database's clock.
func (r *Reconciler) Yesterday(ctx context.Context) (time.Time, error) {
	now, err := r.config.DB.Clock(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return dayOf(now).Add(-oneDay), nil
}

// Run reconciles a UTC day of the named PSP accounts, or of all accounts. If one account fails, the others are still
// judged: the report has the runs that were done, and the error has the failures.
func (r *Reconciler) Run(ctx context.Context, day time.Time, accounts ...string) (Report, error) {
	report := Report{Day: dayOf(day)}
	tenants, err := r.find(ctx, accounts)
	if err != nil {
		return report, err
	}
	var failures []error
	for _, t := range tenants {
		summary, err := r.reconcile(ctx, t, report.Day)
		if err == nil {
			report.Runs = append(report.Runs, summary)
		}
		switch {
		case ctx.Err() != nil:
			return report, fmt.Errorf("called off: %w", ctx.Err()) // The error of the PSP's client does not say so.
		case err != nil:
			failures = append(failures,
				fmt.Errorf("account %s, %s: %w", t.Account, report.Day.Format(time.DateOnly), err))
		}
	}
	return report, errors.Join(failures...)
}

// find finds the tenants of the accounts.
func (r *Reconciler) find(ctx context.Context, accounts []string) ([]dbsqlc.FindAccountsRow, error) {
	found, err := dbsqlc.New(r.config.DB.Reader()).FindAccounts(ctx, append([]string{}, accounts...))
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

// Every day is in UTC.
const (
	oneDay     = 24 * time.Hour
	daySeconds = int64(oneDay / time.Second)
)

// dayOf is the beginning of the UTC day of t.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(oneDay) }

func dateOf(day time.Time) pgtype.Date { return pgtype.Date{Time: day, Valid: true} }
