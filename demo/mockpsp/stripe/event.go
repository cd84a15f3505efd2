package stripe

import (
	"strings"
)

// apiVersion is the version of Stripe's API that the objects follow.
const apiVersion = "2026-02-25.clover"

// event is a change of an object. Its snapshot is the version of the object that was written on the same line, so the
// line does not hold it twice.
type event struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Account string `json:"account"`
	Created int64  `json:"created"`
	Silent  bool   `json:"silent,omitempty"` // no webhook reports it
	For     origin `json:"for,omitzero"`

	snapshot snapshot
}

// origin is the request that an event comes from; none, if it comes from time that has passed.
type origin struct {
	Request string `json:"request,omitempty"`
	Key     string `json:"key,omitempty"`
}

// snapshot is one version of an object, ready to be shown.
type snapshot interface{ shown() object }

// stranger is an object of which callers have never heard.
type stranger struct{ id, object string }

func (s stranger) shown() object { return object{"id": s.id, "object": s.object, "livemode": false} }

// strangers are the types of events that no caller has asked for, by their object.
func strangers() []string { return []string{"customer.created", "payout.paid", "product.updated"} }

// take gives the event its snapshot, out of the change that it belongs to.
func (e *event) take(ch *change) {
	switch {
	case strings.HasPrefix(e.Type, "payment_intent.") && ch.Intent != nil:
		e.snapshot = ch.Intent
	case strings.HasPrefix(e.Type, "refund.") && ch.Refund != nil:
		e.snapshot = ch.Refund
	case strings.HasPrefix(e.Type, "charge.") && ch.Charge != nil:
		e.snapshot = ch.Charge
	default:
		object, _, _ := strings.Cut(e.Type, ".")
		_, random, _ := strings.Cut(e.ID, "_")
		e.snapshot = stranger{strings.ToLower(object) + "_" + random, object}
	}
}

// shown is the event as the API shows it.
func (e *event) shown() object { return e.around(e.snapshot.shown()) }

func (e *event) around(of object) object {
	v := object{
		"id": e.ID, "object": "event", "api_version": apiVersion, "created": e.Created, "data": object{"object": of},
		"livemode": false, "pending_webhooks": 1, "type": e.Type,
		"request": object{"id": orNull(e.For.Request), "idempotency_key": orNull(e.For.Key)},
	}
	if e.Silent {
		v["pending_webhooks"] = 0
	}
	if e.Account != defaultAccount {
		v["account"] = e.Account
	}
	return v
}
