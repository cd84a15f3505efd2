package statement

import (
	"context"
	"errors"
	"fmt"

	"payonce/internal/statement/internal/dbsqlc"
)

// keptAtOnce is how many of a payout's lines are written at a time.
const keptAtOnce = 1000

// keep replaces what an earlier run of the day has kept: the lines of the day, both books, and what payouts have paid.
func (j *judgement) keep(ctx context.Context) error {
	day := dateOf(j.day)
	if err := j.q.ForgetBooked(ctx, dbsqlc.ForgetBookedParams{Account: j.Account, Day: day}); err != nil {
		return fmt.Errorf("forget the lines of an earlier run: %w", err)
	}
	if err := j.q.KeepBooked(ctx, dbsqlc.KeepBookedParams{Account: j.Account, Day: day}); err != nil {
		return fmt.Errorf("keep lines: %w", err)
	}
	payouts, err := j.q.DayPayouts(ctx, dbsqlc.DayPayoutsParams{Account: j.Account, Day: day})
	if err != nil {
		return fmt.Errorf("find payouts: %w", err)
	}
	for _, id := range payouts {
		if err := j.keepPaid(ctx, id); err != nil {
			return fmt.Errorf("keep what %s has paid: %w", id, err)
		}
	}
	return nil
}

// keepPaid keeps which lines a payout has paid. If the PSP does not tell, or its answer cannot be read, there are none:
// that is no reason to lose what was judged of the day.
func (j *judgement) keepPaid(ctx context.Context, payoutID string) error {
	tx, err := j.tx.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin savepoint: %w", err)
	}
	p := dbsqlc.KeepPaidParams{Account: j.Account, PayoutID: payoutID}
	read, notWritten := int64(0), error(nil)
	write := func() error {
		notWritten = j.q.KeepPaid(ctx, p)
		p.LineIds = p.LineIds[:0]
		return notWritten
	}
	notRead := j.published().PayoutLines(ctx, j.Account, payoutID, func(lineID string) error {
		if read++; read > j.config.MaxLines {
			return ErrTooLong
		}
		if p.LineIds = append(p.LineIds, lineID); len(p.LineIds) == keptAtOnce {
			return write()
		}
		return nil
	})
	switch {
	case notWritten != nil:
		return notWritten
	case notRead != nil:
		return errors.Join(tx.Rollback(ctx), ctx.Err())
	case write() != nil:
		return notWritten
	}
	return tx.Commit(ctx)
}
