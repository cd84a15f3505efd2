package shop

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json"
)

// state is what has become of an order.
type state struct {
	Word  string
	Tone  string // the class of its colour
	Means string
	Waits bool // something is still to come
}

// stateOf is the state of an order, from the answer to its payment and from the payment in its newest event. The event
// counts for more: an answer says what was so at its time.
func stateOf(answer string, payment []byte) state {
	if payment != nil {
		if s, known := told(payment); known {
			return s
		}
	}
	switch answer {
	case saidPaid:
		return state{"paid", "good", "The answer says so. The event has not come yet.", true}
	case saidDeclined:
		return state{"declined", "bad", "The answer says so. The event has not come yet.", true}
	case saidRefused:
		return state{"not paid", "bad", "The payment was refused or cannot go on. See the log of the demo.", false}
	case saidNothing:
		return state{"not paid yet", "warn", "We have sent the payment, and no answer came. We do not know.", true}
	}
	return state{"not paid yet", "warn", "We have sent the payment, and do not know.", true}
}

// told is what a payment in an event says. It is not known if the event says that nobody knows.
func told(payment []byte) (s state, known bool) {
	var p struct {
		Status   string `json:"status"`
		Amount   int64  `json:"amountCents"`
		Refunded int64  `json:"amountRefundedCents"`
		Disputes []struct {
			Status string `json:"status"`
		} `json:"disputes"`
	}
	if err := json.Unmarshal(payment, &p); err != nil {
		return s, false
	}
	switch {
	case p.Status == "declined":
		return state{"declined", "bad", "The customer has paid nothing.", false}, true
	case p.Status == "failed":
		return state{"not paid", "bad", "It is proven that nothing was charged.", false}, true
	case p.Status != "succeeded":
		return s, false
	case len(p.Disputes) > 0:
		last := p.Disputes[len(p.Disputes)-1]
		return state{"disputed", "bad", "The customer's bank disputes it: " + last.Status + ".", false}, true
	case p.Refunded >= p.Amount:
		return state{"refunded", "", "The customer has all of the money back.", false}, true
	case p.Refunded > 0:
		return state{"refunded in part", "", "The customer has " + dollars(p.Refunded) + " back.", false}, true
	}
	return state{"paid", "good", "Send the goods.", false}, true
}

func dollars(cents int64) string { return fmt.Sprintf("%d.%02d USD", cents/100, cents%100) }

// order is a row of the page.
type order struct {
	ID, Amount string
	Lost       bool // it was bought with the button that loses the answer
	State      state
	Events     []event
}

// event is what the page shows of an event.
type event struct {
	ID, Type   string
	Deliveries int
	Taken      int
}

// mostOrders is how many orders the page shows.
const mostOrders = 20

// view is what the page shows. NoEndpoint says that Payonce has no endpoint of the shop yet, and Why what has
// prevented that. Waits says that something is still to come.
type view struct {
	Price      string
	Orders     []order
	NoEndpoint bool
	Why        *string
	Waits      bool
}

func (s *Shop) getPage(w http.ResponseWriter, r *http.Request) {
	v := view{Price: dollars(price), NoEndpoint: s.secret.Load() == nil, Why: s.refused.Load()}
	var err error
	if v.Orders, err = s.orders(r.Context()); err != nil {
		s.broken(w, r, err)
		return
	}
	for _, o := range v.Orders {
		v.Waits = v.Waits || o.State.Waits
		for _, e := range o.Events {
			v.Waits = v.Waits || e.Deliveries < 2
		}
	}
	// Otherwise it is not loaded again: that would take the focus away from who uses the keyboard.
	if v.Waits || v.NoEndpoint {
		w.Header().Set("Refresh", "1")
	}
	var page bytes.Buffer
	if err := s.page.Execute(&page, v); err != nil {
		s.config.Log.ErrorContext(r.Context(), "page not rendered", slog.Any("error", err))
		http.Error(w, "Something went wrong on our side.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // a browser that has gone needs no page
}

// orders reads the newest orders, each with its events. A row is an event, or an order without events.
func (s *Shop) orders(ctx context.Context) (all []order, err error) {
	rows, err := s.config.DB.QueryContext(ctx, `SELECT o.id, o.amount_cents, o.payment_method <> '', o.answer,
			(SELECT p.payment FROM told_payments AS p WHERE p.reference = o.id ORDER BY p.version DESC LIMIT 1),
			e.event_id, e.type, e.deliveries, e.taken
		FROM (SELECT * FROM orders ORDER BY placed_at DESC, id LIMIT $1) AS o
		LEFT JOIN order_events AS e ON e.order_id = o.id
		ORDER BY o.placed_at DESC, o.id, e.version DESC`, mostOrders)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err says what was wrong
	for rows.Next() {
		var o order
		var cents int64
		var answer string
		var payment []byte
		var id, kind sql.NullString
		var deliveries, taken sql.NullInt32
		if err := rows.Scan(&o.ID, &cents, &o.Lost, &answer, &payment, &id, &kind, &deliveries, &taken); err != nil {
			return nil, err
		}
		if len(all) == 0 || all[len(all)-1].ID != o.ID {
			o.Amount, o.State = dollars(cents), stateOf(answer, payment)
			all = append(all, o)
		}
		if id.Valid {
			last := &all[len(all)-1]
			last.Events = append(last.Events, event{id.String, kind.String, int(deliveries.Int32), int(taken.Int32)})
		}
	}
	return all, rows.Err()
}

// Times is a number of times in words.
func (event) Times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
