package stripe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

const (
	daySeconds = 24 * 60 * 60
	// statementDelay is how long after the end of a day its statement is complete.
	statementDelay = 10 * time.Minute
)

// Statement calls each with every charge and refund of ours that has a balance transaction of the day (UTC), oldest
// first. Amount and currency are those that the customer paid. The transaction itself may be in another currency, that
// of the payout (https://docs.stripe.com/currencies#presentment-and-settlement-currencies).
func (c *Client) Statement(
	ctx context.Context, account string, day time.Time, each func(gateway.Record) error,
) error {
	began := c.now()
	err := c.statement(ctx, account, day.UTC().Truncate(daySeconds*time.Second), each)
	label := "statement_ok"
	if err != nil {
		label, err = "statement_failed", fmt.Errorf("read statement: %w", err)
	}
	if errors.Is(err, gateway.ErrNoStatement) {
		label = "statement_none"
	}
	c.observe(label, c.now().Sub(began))
	return err
}

func (c *Client) statement(
	ctx context.Context, account string, day time.Time, each func(gateway.Record) error,
) error {
	end := day.Add(daySeconds * time.Second)
	if c.now().Before(end.Add(statementDelay)) {
		return gateway.ErrNoStatement
	}
	s := source{account: account, path: transactionsPath, expand: "data.source"}
	for w := (window{day.Unix(), daySeconds}); w.from < end.Unix(); {
		objects, next, err := c.readWindow(ctx, s, w)
		if err != nil {
			return err
		}
		for _, raw := range objects {
			if err := bookOf(account, raw, w.until(next), each); err != nil {
				return err
			}
		}
		w = window{next.from, min(next.width, end.Unix()-next.from)}
	}
	return nil
}

// transaction is the part of a balance transaction that we read
// (https://docs.stripe.com/api/balance_transactions/object).
type transaction struct {
	Object  string         `json:"object"`
	Type    string         `json:"type"`
	Created int64          `json:"created"`
	Source  jsontext.Value `json:"source"`
}

// bookOf calls each with the movement of a balance transaction, if it is one of ours. One that cannot be read may be
// ours, so the day would be incomplete without it.
func bookOf(account string, raw []byte, w window, each func(gateway.Record) error) error {
	var t transaction
	if json.Unmarshal(raw, &t) != nil || t.Object != "balance_transaction" {
		return errors.New("balance transaction malformed")
	}
	if !w.has(t.Created) {
		return errors.New("balance transaction of another time")
	}
	var r read
	switch t.Type {
	case "charge", "payment":
		r = readCharge(account, t.Source)
	case "refund", "payment_refund", "refund_failure": // By the last one, the money of a refund comes back.
		r = readRefund(account, t.Source)
	default:
		return nil // a fee, a payout, a transfer
	}
	if r.kind == unreadable {
		return fmt.Errorf("balance transaction: %s", r.reason)
	}
	if r.kind != recorded {
		return nil
	}
	// The statement is of the day on which the money was booked.
	r.record.Created = time.Unix(t.Created, 0).UTC()
	if err := each(r.record); err != nil {
		return fmt.Errorf("take record: %w", err)
	}
	return nil
}
