package mockpsp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// notTheSecret signs forgeries.
const notTheSecret = "this is not the secret"

// DemoWebhookSecret is the signing secret of the demo. It is as public as this line.
const DemoWebhookSecret = secretPrefix + "ZGVtby13ZWJob29rLXNlY3JldC1mb3ItcGF5b25jZSEh"

const secretPrefix = "whsec_"

// Webhook tells a receiver of one thing. All of it follows from that thing, so that each try, a duplicate, and a try
// after a restart have the same id and the same bytes.
type Webhook struct {
	ID   string
	Kind string
	Body []byte
}

// Subject is what a webhook tells of: an entry or, in another dialect, an event.
type Subject interface {
	// SubjectID names it in the file of ended webhooks and in GET /_webhooks.
	SubjectID() string
	// Webhook returns its webhook. A forged one tells of another amount.
	Webhook(forged bool) Webhook
}

// Signer returns the headers that sign a webhook at a time. A forgery is signed by somebody who does not know the
// secret.
type Signer func(hook Webhook, forged bool, at time.Time) http.Header

// SubjectID implements [Subject]. Each version has its own webhook.
func (r *record) SubjectID() string {
	if r.Version == 0 {
		return r.Entry.ID
	}
	return r.Entry.ID + "-" + strconv.Itoa(r.Version)
}

// Webhook implements [Subject].
func (r *record) Webhook(forged bool) Webhook {
	shown := r.Entry
	if forged {
		shown.AmountCents++
	}
	body := Render(struct {
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Data      *entry `json:"data"`
	}{r.kind(), r.at(), &shown})
	return Webhook{webhookID(r.SubjectID()), r.kind(), body}
}

// webhookID takes over the entry's randomness.
func webhookID(entryID string) string {
	_, random, _ := strings.Cut(entryID, "_")
	return "evt_" + random
}

// sendsWebhook is false for the entries that only polling finds, or nobody.
func (r *record) sendsWebhook(silentAccount string) bool {
	does := behaviours[r.Fault]
	return !does.noWebhook && !r.dialect && r.Entry.Status != StatusPaid && r.Entry.Account != silentAccount
}

// webhookKey decodes a secret as Standard Webhooks writes it, with the length that it asks for.
func webhookKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, errors.New("the webhook secret does not begin with " + secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the webhook secret is not in base64") // the error would quote it
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, errors.New("the webhook secret must be 24 to 64 bytes")
	}
	return key, nil
}

// webhookSignature signs as Standard Webhooks says (standardwebhooks.com): id, Unix time and body, joined by dots.
func webhookSignature(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// signer signs as Standard Webhooks says.
func signer(key []byte) Signer {
	return func(hook Webhook, forged bool, at time.Time) http.Header {
		by := key
		if forged {
			by = []byte(notTheSecret)
		}
		timestamp := strconv.FormatInt(at.Unix(), 10)
		header := http.Header{}
		header.Set("Webhook-Id", hook.ID)
		header.Set("Webhook-Timestamp", timestamp)
		header.Set("Webhook-Signature", webhookSignature(by, hook.ID, timestamp, hook.Body))
		return header
	}
}

// subjects are the entries whose webhook is sent without being asked for, oldest first.
func subjects(records []*record, silentAccount string) []Subject {
	var all []Subject
	for _, r := range records {
		if r.sendsWebhook(silentAccount) {
			all = append(all, r)
		}
	}
	return all
}

// A disorder is what goes wrong on a webhook's way.
const (
	disorderDuplicate = "duplicate" // sent twice, at about the same time
	disorderReorder   = "reorder"   // held back until a later one has been sent
	disorderDelay     = "delay"     // sent after a further pause
	disorderDrop      = "drop"      // never sent
	disorderForge     = "forge"     // a forgery of it is sent before it
	disorderStale     = "stale"     // signed ten minutes ago; by hand only
)

// disorderNames are those that can be drawn, each independently of the others, in the order in which they are.
func disorderNames() []string {
	return []string{disorderDuplicate, disorderReorder, disorderDelay, disorderDrop, disorderForge}
}

// ofTry names the disorders that the genuine try shows; copies and forgeries are tries of their own.
func ofTry(drawn map[string]bool) string {
	var names []string
	for _, candidate := range []string{disorderReorder, disorderDelay} {
		if drawn[candidate] {
			names = append(names, candidate)
		}
	}
	return strings.Join(names, ",")
}
