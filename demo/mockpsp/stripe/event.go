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
type snapshot interface {
	shown() any
	objectID() string
	forged() snapshot // with another amount
}

func (i *intent) shown() any       { return i.view(nil) }
func (i *intent) objectID() string { return i.ID }

func (i *intent) forged() snapshot {
	altered := *i
	altered.Amount++
	return &altered
}

func (c *charge) shown() any       { return c.view(nil) }
func (c *charge) objectID() string { return c.ID }

func (c *charge) forged() snapshot {
	altered := *c
	altered.Amount++
	return &altered
}

func (r *refund) shown() any       { return r.view() }
func (r *refund) objectID() string { return r.ID }

func (r *refund) forged() snapshot {
	altered := *r
	altered.Amount++
	return &altered
}

// stranger is an object of which callers have never heard.
type stranger struct{ id, object string }

func (s stranger) shown() any {
	return map[string]any{"id": s.id, "object": s.object, "livemode": false}
}

func (s stranger) objectID() string { return s.id }
func (s stranger) forged() snapshot { return s }

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

type eventView struct {
	ID              string       `json:"id"`
	Object          string       `json:"object"`
	Account         string       `json:"account,omitempty"`
	APIVersion      string       `json:"api_version"`
	Created         int64        `json:"created"`
	Data            eventData    `json:"data"`
	Livemode        bool         `json:"livemode"`
	PendingWebhooks int          `json:"pending_webhooks"`
	Request         *requestView `json:"request"`
	Type            string       `json:"type"`
}

type eventData struct {
	Object any `json:"object"`
}

type requestView struct {
	ID  *string `json:"id"`
	Key *string `json:"idempotency_key"`
}

func (e *event) view() *eventView {
	v := &eventView{
		ID: e.ID, Object: "event", APIVersion: apiVersion, Created: e.Created,
		PendingWebhooks: 1, Data: eventData{e.snapshot.shown()},
		Request: &requestView{orNull(e.For.Request), orNull(e.For.Key)},
		Type:    e.Type,
	}
	if e.Silent {
		v.PendingWebhooks = 0
	}
	if e.Account != defaultAccount {
		v.Account = e.Account
	}
	return v
}
