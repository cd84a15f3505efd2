package stripe

import (
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
