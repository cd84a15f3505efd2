package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

const (
	daySeconds = 24 * 60 * 60
	// statementDelay is how long after the end of a day its statement is complete.
	statementDelay = 10 * time.Minute
)

var _ gateway.Statements = (*Client)(nil)

// Statement calls each with every balance transaction of the day (UTC), oldest first. Those about a charge of ours, or
// about a refund or a dispute of any intent, have a record in the currency in which the customer paid. The transaction
// itself may be in another currency, that of the payout
// (https://docs.stripe.com/currencies#presentment-and-settlement-currencies).
func (c *Client) Statement(
	ctx context.Context, account string, day time.Time, each func(gateway.Line) error,
) error {
	day = day.UTC().Truncate(daySeconds * time.Second)
	end := day.Add(daySeconds * time.Second)
	if c.now().Before(end.Add(statementDelay)) {
		return gateway.ErrNoStatement
	}
	in, err := c.reader(account)
	if err != nil {
		return err
	}
	s := source{account: account, path: transactionsPath, expand: "data.source"}
	for w := (window{day.Unix(), daySeconds}); w.from < end.Unix(); {
		objects, next, err := c.readWindow(ctx, s, w)
		if err != nil {
			return err
		}
		for _, raw := range objects {
			if err := in.bookOf(raw, w.until(next), each); err != nil {
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
	ID       string         `json:"id"`
	Object   string         `json:"object"`
	Type     string         `json:"type"`
	Category string         `json:"reporting_category"`
	Amount   int64          `json:"amount"`
	Fee      int64          `json:"fee"`
	Net      int64          `json:"net"`
	Currency string         `json:"currency"`
	Created  int64          `json:"created"`
	Source   jsontext.Value `json:"source"`
}

// readTransaction reads the movement of a customer's money that a transaction is about. Its source is the object which
// has moved the money.
func (in reader) readTransaction(t transaction) (r gateway.Record, err error) {
	if !t.ofCustomer() {
		return r, foreign // a fee, a payout, a hold
	}
	switch wire.TextIn(t.Source, "object") {
	case "refund": // also by a refund_failure, by which its money comes back
		return in.readRefund(t.Source)
	case "dispute":
		return in.readDispute(t.Source)
	case "charge":
		if t.Type == "charge" || t.Type == "payment" {
			return in.readCharge(t.Source)
		}
		return t.reversal(in.account)
	}
	return r, errNoRecord
}

// object says which kind of line a transaction is that has no record: a fee, a payout
// (https://docs.stripe.com/reports/balance-transaction-types), of a movement that is not ours, or not final, or of an
// unknown type. payment is the intent that the line is about, and id that of a payout.
func (t transaction) object() (o gateway.Object, id, payment string) {
	source := wire.TextIn(t.Source, "object")
	switch {
	case t.Category == "fee":
		return gateway.FeeObject, "", ""
	case source == "payout":
		if t.Type == "payout" { // not its failure, by which the money comes back
			id = wire.TextIn(t.Source, "id")
		}
		return gateway.PayoutObject, id, ""
	case !t.ofCustomer():
	case source != "charge":
		o = gateway.Object(source)
	case t.Type == "charge" || t.Type == "payment":
		o = gateway.ChargeObject
	default:
		o = gateway.RefundObject
	}
	return o, "", wire.TextIn(t.Source, "payment_intent")
}

// ofCustomer reports whether the transaction moves a customer's money. Its source alone does not say that: a hold of
// the payment network may name a charge. adjustment has several meanings, and only its category tells which
// (https://docs.stripe.com/reports/reporting-categories).
func (t transaction) ofCustomer() bool {
	return t.Category != "fee" && (slices.Contains(ofCustomers, t.Type) || slices.Contains(ofCustomers, t.Category))
}

// ofCustomers are the types and the reporting categories of transactions that move a customer's money. Each has a
// source: without it, nobody can tell whose money it was.
var ofCustomers = []string{
	"charge", "payment", "refund", "payment_refund", "refund_failure", "payment_failure_refund", "payment_reversal",
	"charge_failure", "partial_capture_reversal", "dispute", "dispute_reversal",
}

// reversal reads a transaction by which the money of a charge goes back without a refund object: a
// payment_failure_refund of a bank debit, a payment_reversal. For us it is a refund that somebody else has made. If the
// transaction gives something to us, no money has left.
func (t transaction) reversal(account string) (r gateway.Record, err error) {
	var ch charge
	if json.Unmarshal(t.Source, &ch) != nil {
		return r, errNoRecord
	}
	if ch.PaymentIntent == "" {
		return r, foreign
	}
	if t.Amount >= 0 {
		return r, unfinished
	}
	e := entry{object: ch.object, kind: gateway.RefundObject, account: account, charge: ch.PaymentIntent}
	e.ID, e.Status, e.Created = t.ID, gateway.StatusSucceeded, t.Created
	if taken := -t.Amount; t.Currency == ch.Currency { // Otherwise it may be the whole charge.
		e.Amount = &taken
	}
	return e.record()
}

// bookOf calls each with a balance transaction. One that cannot be read may be about a payment of ours, so the day
// would be incomplete without it. One that is about none of ours has a line all the same, so that the sums are whole.
func (in reader) bookOf(raw []byte, w window, each func(gateway.Line) error) error {
	var t transaction
	if json.Unmarshal(raw, &t) != nil || t.Object != "balance_transaction" {
		return errors.New("balance transaction malformed")
	}
	if !w.has(t.Created) {
		return errors.New("balance transaction of another time")
	}
	r, err := in.readTransaction(t)
	if _, is := errors.AsType[ignored](err); is {
		err, r.Account = nil, in.account
		r.Object, r.ID, r.ChargeID = t.object()
	}
	if err != nil {
		return fmt.Errorf("balance transaction: %w", err)
	}
	// The statement is of the day on which the money was booked.
	r.Created = time.Unix(t.Created, 0).UTC()
	l := gateway.Line{Record: r, LineID: t.ID, Type: t.Type, BalanceCurrency: upper(t.Currency)}
	var whole, counted bool
	l.FeeMinor, whole = fromStripe(t.Fee, l.BalanceCurrency)
	l.NetMinor, counted = fromStripe(t.Net, l.BalanceCurrency)
	if l.Status != "" && (!whole || !counted) {
		return errors.New("balance transaction with an amount that cannot be counted")
	}
	if l, err = l.Accept(); err != nil {
		return fmt.Errorf("balance transaction: %w", err)
	}
	if err := each(l); err != nil {
		return fmt.Errorf("take record: %w", err)
	}
	return nil
}

// PayoutLines reads the ids of the balance transactions that a payout has paid. Stripe knows them for automatic payouts
// only, and refuses to list them for others
// (https://docs.stripe.com/api/balance_transactions/list#balance_transaction_list-payout).
func (c *Client) PayoutLines(
	ctx context.Context, account, payoutID string, each func(lineID string) error,
) error {
	p := c.pages(account, transactionsPath, url.Values{"payout": {payoutID}})
	for first := true; !p.done; first = false {
		objects, err := p.next(ctx)
		if first && errors.Is(err, wire.StatusError(http.StatusBadRequest)) {
			return gateway.ErrNoPayoutLines
		}
		if err != nil {
			return err
		}
		for _, raw := range objects {
			id := wire.TextIn(raw, "id")
			switch {
			case !gateway.IsID(id):
				return errors.New("balance transaction malformed")
			case wire.TextIn(raw, "type") == "payout": // The payout itself is on the list, too.
				continue
			}
			if err := each(id); err != nil {
				return err
			}
		}
	}
	return nil
}
