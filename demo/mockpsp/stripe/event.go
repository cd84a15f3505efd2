package stripe

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"payonce/demo/mockpsp"
)

// apiVersion is the version of Stripe's API that an account has unless its config says another one.
const apiVersion = "2026-02-25.clover"

// event is a change of an object. Its snapshot is the version of the object that was written on the same line, so the
// line does not hold it twice.
type event struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Account string `json:"account"`
	Created int64  `json:"created"`
	Silent  bool   `json:"silent,omitempty"` // no webhook reports it
	Version string `json:"version,omitempty"`
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

// take gives the event its snapshot, out of the change that it belongs to.
func (e *event) take(ch *change) {
	switch {
	case strings.HasPrefix(e.Type, "payment_intent.") && ch.Intent != nil:
		e.snapshot = ch.Intent
	case strings.HasPrefix(e.Type, "refund.") && ch.Refund != nil:
		e.snapshot = ch.Refund
	case strings.HasPrefix(e.Type, "charge.dispute.") && ch.Dispute != nil:
		e.snapshot = ch.Dispute
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
		"id": e.ID, "object": "event", "api_version": cmp.Or(e.Version, apiVersion), "created": e.Created,
		"data": object{"object": of}, "livemode": false, "pending_webhooks": 1, "type": e.Type,
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

// webhooksSuffix names the file beside the ledger.
const webhooksSuffix = ".stripe-webhooks"

// notTheSecret signs forgeries.
const notTheSecret = "whsec_this_is_not_the_secret"

// SubjectID implements [mockpsp.Subject].
func (e *event) SubjectID() string { return e.ID }

// Webhook implements [mockpsp.Subject].
func (e *event) Webhook(forged bool) mockpsp.Webhook {
	of := e.snapshot.shown()
	if amount, ok := of["amount"].(int64); ok && forged {
		of["amount"] = amount + 1
	}
	return mockpsp.Webhook{ID: e.ID, Kind: e.Type, Body: mockpsp.Render(e.around(of))}
}

// signer signs as Stripe does: the time and a signature for each secret, in one header. The whole secret is the key,
// whsec_ included.
func signer(secrets []string) mockpsp.Signer {
	return func(hook mockpsp.Webhook, forged bool, at time.Time) http.Header {
		by := secrets
		if forged {
			by = []string{notTheSecret}
		}
		timestamp := strconv.FormatInt(at.Unix(), 10)
		signed := []string{"t=" + timestamp}
		for _, secret := range by {
			signed = append(signed, "v1="+signature(secret, timestamp, hook.Body))
		}
		header := http.Header{}
		header.Set("Stripe-Signature", strings.Join(signed, ","))
		return header
	}
}

func signature(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", timestamp, body)
	return hex.EncodeToString(mac.Sum(nil))
}

// openOutbox goes on with the events that were not delivered.
func (s *Server) openOutbox() error {
	outbox, err := s.psp.NewOutbox(mockpsp.OutboxConfig{
		URL: s.config.WebhookURL, Suffix: webhooksSuffix, Sign: signer(s.config.WebhookSecrets), Find: s.findEvent,
	}, s.store.told())
	s.outbox = outbox
	return err
}

// told are the events of which webhooks tell, oldest first in each account.
func (s *store) told() []mockpsp.Subject {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []mockpsp.Subject
	for _, b := range s.books {
		for _, kept := range b.events.all {
			if !kept.newest.Silent {
				all = append(all, kept.newest)
			}
		}
	}
	return all
}

// findEvent returns the event with an id, or the latest that tells of the object with that id.
func (s *Server) findEvent(id string) mockpsp.Subject {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	for _, b := range s.store.books {
		if known := b.events.byID[id]; known != nil {
			return known.newest
		}
	}
	for _, b := range s.store.books {
		for i := range b.events.all {
			if e := b.events.all[len(b.events.all)-1-i].newest; e.snapshot.shown()["id"] == id {
				return e
			}
		}
	}
	return nil
}
