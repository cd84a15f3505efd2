package mockpsp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// DemoWebhookSecret is the signing secret of the demo. It is as public as this line.
const DemoWebhookSecret = secretPrefix + "ZGVtby13ZWJob29rLXNlY3JldC1mb3ItcGF5b25jZSEh"

const secretPrefix = "whsec_"

// webhook tells a receiver of one entry. All of it follows from the entry, so that each try, a duplicate, and a try
// after a restart have the same id and the same bytes.
type webhook struct {
	id   string
	kind string
	body []byte
}

func webhookOf(e *entry) webhook {
	kind := e.Object + "." + e.Status
	body := render(struct {
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Data      *entry `json:"data"`
	}{kind, e.CreatedAt, e})
	return webhook{webhookID(e.ID), kind, body}
}

// webhookID takes over the entry's randomness.
func webhookID(entryID string) string {
	_, random, _ := strings.Cut(entryID, "_")
	return "evt_" + random
}

// sendsWebhook is false for the entries that only polling finds, or nobody.
func (r *record) sendsWebhook() bool {
	does, _ := r.Fault.behaviour()
	return !does.noWebhook
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
