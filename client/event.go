package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is what Payonce tells of a payment. Events come at least once, and in any order. Version grows with each event
// of a payment, and each event has the whole payment, and the refund or the dispute that it is about. So a consumer
// keeps what has the greatest version of each payment, of each refund and of each dispute.
type Event struct {
	ID        string // the same in each delivery of the event
	Type      string // such as "payment.succeeded"
	Version   int64
	PaymentID string
	Reference string // the merchant's own id of the order
	Status    string // of the payment
	RefundID  string // of the refund that the event is about; "": none
	DisputeID string // the provider's id of the dispute that the event is about; "": none
	Payment   json.RawMessage
	Refund    json.RawMessage // that the event is about; nil: none
	Dispute   json.RawMessage // that the event is about; nil: none
}

// ErrForged says that a request is not an event of Payonce's, or that it is too old. Answer it with 400, and trust
// nothing of it.
var ErrForged = errors.New("not a signed event")

// EventAge is how far the time of a delivery may be from the consumer's clock. An older one may be a copy that somebody
// has recorded.
const EventAge = 5 * time.Minute

// VerifyEvent reads a delivery, and checks its signature (Standard Webhooks: webhook-id, webhook-timestamp,
// webhook-signature). body is the body as it was received, byte by byte. secrets are those of the endpoint, such as
// "whsec_…": two during a rotation. One must fit.
func VerifyEvent(body []byte, h http.Header, now time.Time, secrets ...string) (Event, error) {
	id, sent := h.Get("webhook-id"), h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || id == "" {
		return Event{}, fmt.Errorf("%w: webhook-id or webhook-timestamp is missing", ErrForged)
	}
	if age := now.Sub(time.Unix(seconds, 0)).Abs(); age > EventAge {
		return Event{}, fmt.Errorf("%w: sent %s away from our clock", ErrForged, age.Round(time.Second))
	}
	if !signed(id+"."+sent+"."+string(body), h.Get("webhook-signature"), secrets) {
		return Event{}, fmt.Errorf("%w: no signature fits", ErrForged)
	}
	return eventIn(id, body)
}

// signed reports whether one of the signatures is by one of the secrets.
func signed(text, signatures string, secrets []string) bool {
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			continue // With an empty key, anybody could sign.
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, got := range strings.Fields(signatures) {
			if hmac.Equal([]byte(want), []byte(got)) {
				return true
			}
		}
	}
	return false
}

func eventIn(id string, body []byte) (Event, error) {
	var read struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Version int64  `json:"version"`
		Data    struct {
			Payment json.RawMessage `json:"payment"`
			Refund  json.RawMessage `json:"refund"`
			Dispute json.RawMessage `json:"dispute"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &read); err != nil {
		return Event{}, fmt.Errorf("read event %s: %w", id, err)
	}
	var paid struct {
		PaymentID string `json:"paymentId"`
		Reference string `json:"reference"`
		Status    string `json:"status"`
	}
	if err := json.Unmarshal(read.Data.Payment, &paid); err != nil {
		return Event{}, fmt.Errorf("read the payment of event %s: %w", id, err)
	}
	var about struct {
		RefundID  string `json:"refundId"`
		DisputeID string `json:"pspDisputeId"`
	}
	for _, raw := range []json.RawMessage{read.Data.Refund, read.Data.Dispute} {
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, &about); err != nil {
			return Event{}, fmt.Errorf("read what event %s is about: %w", id, err)
		}
	}
	if read.ID != id || read.Version == 0 || paid.PaymentID == "" {
		return Event{}, fmt.Errorf("read event %s: it has another id, no version, or no payment", id)
	}
	return Event{ID: id, Type: read.Type, Version: read.Version, PaymentID: paid.PaymentID, Reference: paid.Reference,
		Status: paid.Status, RefundID: about.RefundID, DisputeID: about.DisputeID, Payment: read.Data.Payment,
		Refund: read.Data.Refund, Dispute: read.Data.Dispute}, nil
}
